package etcdstore

import (
	"cmp"
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
	lookBatch = 60  // claims in one transaction that writes or deletes, at most two operations each; etcd allows 128
	lookOps   = 120 // operations in one read
	lookDeep  = 3   // how often a look is repeated for those whose blocker has changed
)

// look reads where places stand, linearizably: what it finds is no older than its call. It reads each one's own key, and
// what blocks it; if that has changed, who is ahead now, together with the own key, so that both are of one revision.
// Whoever turns out to be held or gone is told.
func (s *Store) look(ctx context.Context, places []*place) error {
	for range lookDeep {
		again, err := s.lookOnce(ctx, places)
		if err != nil || len(again) == 0 {
			return err
		}
		places = again
	}
	return nil // it changes faster than one can look: the next event tells
}

// lookOnce reads about places, in as many transactions as it takes. It returns those who have to be looked at again.
func (s *Store) lookOnce(ctx context.Context, places []*place) (again []*place, err error) {
	for len(places) > 0 {
		var i inquiry
		s.mu.Lock()
		for len(places) > 0 && len(i.ops) <= lookOps-2 {
			if p := places[0]; s.places[p.id] == p {
				i.put(s, p)
			}
			places = places[1:]
		}
		s.mu.Unlock()
		if len(i.questions) == 0 {
			continue
		}
		answer, _, err := s.commit(ctx, transaction{then: i.ops})
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		i.answers = answer.Responses
		for _, q := range i.questions {
			if !s.answered(&i, &q, answer.Header.Revision) {
				again = append(again, q.place)
			}
		}
		s.unlock()
	}
	return again, nil
}

// An inquiry is what is read in one transaction.
type inquiry struct {
	questions []question
	ops       []clientv3.Op
	answers   []*etcdserverpb.ResponseOp // to ops
	lines     map[string]*sharedLine     // by name
}

// A sharedLine is read and understood once, whoever asks about it: many may wait in it.
type sharedLine struct {
	op      int   // where it is among the answers
	upTo    int64 // the last ticket that matters
	read    bool
	entries []entry // as far as they can be read
	err     error   // why those behind them cannot
}

// A question is what is read about a place.
type question struct {
	*place
	own     int // where its own key is among the answers, if it is not read with the line
	ahead   int // likewise, what blocks it, or the one before it
	line    *sharedLine
	wide    bool // who is ahead is read, and not just the blocker
	ask     store.Ask
	blocker blocker
	asOf    int64 // the newest revision that was known when the question was put
	waited  bool  // it was waiting then
}

// put puts the question about p.
func (i *inquiry) put(s *Store, p *place) {
	q := question{place: p, ask: p.ask, blocker: p.blocker, asOf: p.asOf, waited: p.state == store.Waiting}
	q.wide = q.waited && (p.moved || p.blocker.key == "")
	if q.wide && !p.exclusive() {
		q.line = i.readLine(s, p)
		i.questions = append(i.questions, q)
		return
	}
	q.own = i.add(clientv3.OpGet(p.key, clientv3.WithKeysOnly()))
	switch {
	case q.wide:
		q.ahead = i.add(clientv3.OpGet(s.keys.line(p.name), clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(1),
			clientv3.WithMaxCreateRev(int64(p.ticket-1)), //nolint:gosec // a revision
			clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)))
	case q.waited:
		q.ahead = i.add(clientv3.OpGet(p.blocker.key, clientv3.WithKeysOnly()))
	}
	i.questions = append(i.questions, q)
}

func (i *inquiry) add(op clientv3.Op) int {
	i.ops = append(i.ops, op)
	return len(i.ops) - 1
}

// readLine has p's line read, as far as p and those who asked before.
func (i *inquiry) readLine(s *Store, p *place) *sharedLine {
	l := i.lines[p.name]
	if l == nil {
		if i.lines == nil {
			i.lines = map[string]*sharedLine{}
		}
		l = &sharedLine{op: i.add(clientv3.Op{})}
		i.lines[p.name] = l
	}
	l.upTo = max(l.upTo, int64(p.ticket)) //nolint:gosec // a revision
	i.ops[l.op] = clientv3.OpGet(s.keys.line(p.name), clientv3.WithPrefix(), clientv3.WithMaxCreateRev(l.upTo),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	return l
}

func (i *inquiry) kvs(op int) []*mvccpb.KeyValue { return i.answers[op].GetResponseRange().Kvs }

// understand reads the values of a line up to the first that cannot be read: it concerns only those behind.
func (l *sharedLine) understand(s *Store, kvs []*mvccpb.KeyValue) {
	if l.read {
		return
	}
	l.read = true
	for _, kv := range kvs {
		r, err := decode(kv.Value)
		if err != nil {
			l.err = s.unreadable(kv.Key, err)
			return
		}
		l.entries = append(l.entries, entry{r, kv})
	}
}

// placeIn finds a claim in a line, and says how many are ahead of it.
func placeIn(kvs []*mvccpb.KeyValue, p *place) (ahead int, found bool) {
	ahead, found = slices.BinarySearchFunc(kvs, int64(p.ticket), func(kv *mvccpb.KeyValue, ticket int64) int { //nolint:gosec // a revision
		return cmp.Compare(kv.CreateRevision, ticket)
	})
	return ahead, found && string(kvs[ahead].Key) == p.key
}

// answered takes what was read about a place at a revision. It says whether that was enough.
func (s *Store) answered(i *inquiry, q *question, revision int64) bool {
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
	op := q.own
	if q.line != nil {
		op = q.line.op
	}
	ahead, found := placeIn(i.kvs(op), p)
	if !found {
		s.gone(p)
		return true
	}
	p.asOf = revision
	p.unknown = nil
	switch {
	case p.state == store.Held || !q.waited:
		return true
	case p.ask != q.ask:
		return false // it has shrunk meanwhile
	case q.line != nil:
		q.line.understand(s, i.kvs(op))
		s.judged(p, q.line, ahead, revision)
		return true
	}
	kvs := i.kvs(q.ahead)
	switch {
	case !q.wide:
		p.moved = p.moved || p.blocker != q.blocker || len(kvs) == 0 || kvs[0].CreateRevision != p.blocker.create ||
			!p.exclusive() && kvs[0].ModRevision != p.blocker.mod
		return !p.moved
	case len(kvs) == 0:
		s.hold(p, true)
	default:
		s.waitFor(p, newBlocker(kvs[0]), revision)
	}
	return true
}

// judged takes how a line was at a revision, in which so many stand ahead of p.
func (s *Store) judged(p *place, l *sharedLine, ahead int, revision int64) {
	if ahead > len(l.entries) {
		p.unknown = l.err
		return
	}
	if state, b := evaluate(l.entries[:ahead], p.ask); state == store.Held {
		s.hold(p, true)
	} else {
		s.waitFor(p, b, revision)
	}
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
	ctx, cancel := context.WithTimeout(s.life, s.ttl/2)
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
