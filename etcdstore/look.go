package etcdstore

import (
	"context"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/line"
	"github.com/holdfast-go/holdfast/store"
)

// A blocker is what a waiting claim waits for. An empty key stands for the whole line.
type blocker struct {
	key    string
	create int64 // the key may have been another's, and may be
	mod    int64
}

// evaluate says where a claim stands that comes after these, and what it waits for:
//   - one that wants everything, for the one before it;
//   - a reader, for the last ahead that readers cannot hold beside;
//   - any other, for anything in the line.
func evaluate(ahead []entry, ask store.Ask) (store.State, blocker) {
	var prefix line.Prefix
	fits := true
	for i := range ahead {
		fits = fits && prefix.Admit(ahead[i].ask())
	}
	if fits && prefix.Admit(ask) {
		return store.Held, blocker{}
	}
	if ask.Units == ask.Limit {
		return store.Waiting, ahead[len(ahead)-1].blocker()
	}
	for _, e := range slices.Backward(ahead) {
		if ask.Kind == store.Lock && (e.Units == e.Limit || line.Mismatch(e.ask(), ask)) {
			return store.Waiting, e.blocker()
		}
	}
	return store.Waiting, blocker{}
}

func (e *entry) blocker() blocker { return newBlocker(e.kv) }

func newBlocker(kv *mvccpb.KeyValue) blocker {
	return blocker{string(kv.Key), kv.CreateRevision, kv.ModRevision}
}

const (
	lookBatch = 60 // places in one read: two operations each, and etcd allows 128
	lookDeep  = 3  // how often a look is repeated for those whose blocker has changed
)

// look reads where places stand, linearizably: what it finds is no older than its call. It reads each one's own key, and
// what blocks it; if that has changed, who is ahead now, together with the own key, so that both are of one revision.
// Whoever turns out to be held or gone is told.
func (s *Store) look(ctx context.Context, places []*place) error {
	for range lookDeep {
		var changed []*place
		for batch := range slices.Chunk(places, lookBatch) {
			again, err := s.lookOnce(ctx, batch)
			if err != nil {
				return err
			}
			changed = append(changed, again...)
		}
		if len(changed) == 0 {
			return nil
		}
		places = changed
	}
	return nil // it changes faster than one can look: the next event tells
}

// A question is what is read about a place.
type question struct {
	*place
	ops     []clientv3.Op
	wide    bool // who is ahead is read, and not just the blocker
	ask     store.Ask
	blocker blocker
	asOf    int64 // the newest revision that was known when the question was put
	waited  bool  // it was waiting then
}

// lookOnce reads about one batch. It returns those who have to be looked at again.
func (s *Store) lookOnce(ctx context.Context, places []*place) (again []*place, err error) {
	questions := make([]question, 0, len(places))
	var ops []clientv3.Op
	s.mu.Lock()
	for _, p := range places {
		if s.places[p.id] == p {
			q := s.question(p)
			questions = append(questions, q)
			ops = append(ops, q.ops...)
		}
	}
	s.mu.Unlock()
	if len(questions) == 0 {
		return nil, nil
	}
	answer, _, err := s.commit(ctx, transaction{then: ops})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.unlock()
	rest := answer.Responses
	for _, q := range questions {
		if !s.answered(&q, answer.Header.Revision, rest[:len(q.ops)]) {
			again = append(again, q.place)
		}
		rest = rest[len(q.ops):]
	}
	return again, nil
}

// question is what to read about p.
func (s *Store) question(p *place) question {
	q := question{place: p, ask: p.ask, blocker: p.blocker, asOf: p.asOf, waited: p.state == store.Waiting}
	q.ops = append(q.ops, clientv3.OpGet(p.key, clientv3.WithKeysOnly()))
	if !q.waited {
		return q
	}
	names := s.keys.line(p.name)
	q.wide = p.moved || p.blocker.key == ""
	switch {
	case !q.wide:
		q.ops = append(q.ops, clientv3.OpGet(p.blocker.key, clientv3.WithKeysOnly()))
	case p.exclusive():
		q.ops = append(q.ops, clientv3.OpGet(names, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1),
			clientv3.WithMaxCreateRev(int64(p.ticket-1)), //nolint:gosec // a revision
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)))
	default:
		q.ops = append(q.ops, clientv3.OpGet(names, clientv3.WithPrefix(),
			clientv3.WithMaxCreateRev(int64(p.ticket-1)))) //nolint:gosec // a revision
	}
	return q
}

// answered takes what was read about a place at a revision. It says whether that was enough.
func (s *Store) answered(q *question, revision int64, answers []*etcdserverpb.ResponseOp) bool {
	p := q.place
	switch {
	case s.places[p.id] != p:
		return true // it has left
	case revision < q.asOf:
		// etcd went back in time: it was restored from a backup. Nothing that was known of it counts any more.
		s.forsake(p.session)
		return true
	case p.asOf > revision:
		return true // something newer is known by now
	}
	own := answers[0].GetResponseRange().Kvs
	if len(own) == 0 || own[0].CreateRevision != int64(p.ticket) { //nolint:gosec // a revision
		s.gone(p)
		return true
	}
	p.asOf = revision
	p.unknown = nil
	if p.state == store.Held || !q.waited {
		return true
	}
	kvs := answers[1].GetResponseRange().Kvs
	switch {
	case p.ask != q.ask:
		return false // it has shrunk meanwhile
	case !q.wide:
		p.moved = p.moved || p.blocker != q.blocker || len(kvs) == 0 || kvs[0].CreateRevision != p.blocker.create ||
			!p.exclusive() && kvs[0].ModRevision != p.blocker.mod
		return !p.moved
	case p.exclusive() && len(kvs) == 0:
		s.hold(p, true)
		return true
	case p.exclusive():
		s.waitFor(p, newBlocker(kvs[0]), revision)
		return true
	}
	entries, err := s.decodeLine(kvs)
	if err != nil {
		p.unknown = err
		return true
	}
	state, b := evaluate(entries, p.ask)
	if state == store.Held {
		s.hold(p, true)
	} else {
		s.waitFor(p, b, revision)
	}
	return true
}

// doubt has p looked at soon: something happened to its key, or to what blocks it.
func (s *Store) doubt(p *place) {
	if s.places[p.id] != p {
		return
	}
	s.doubts[p] = struct{}{}
	s.looks.ask()
}

// resolve looks at all who are in doubt. It is done by one goroutine at a time.
func (s *Store) resolve() error {
	s.mu.Lock()
	places := make([]*place, 0, len(s.doubts))
	for p := range s.doubts {
		places = append(places, p)
	}
	clear(s.doubts)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.life, max(s.ttl/4, tryFor(s.ttl)))
	defer cancel()
	err := s.look(ctx, places)
	if err == nil || s.life.Err() != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range places {
		if s.places[p.id] == p {
			s.doubts[p] = struct{}{}
		}
	}
	time.AfterFunc(doubtPause, func() { s.looks.ask() })
	return err
}

// doubtPause is how long after a failure those in doubt are looked at again.
const doubtPause = 50 * time.Millisecond
