package etcdstore

import (
	"cmp"
	"context"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// A blocker is what a waiting claim waits for. An empty key stands for the whole queue.
type blocker struct {
	key    string
	create int64 // the key may have been another's, and may be
	mod    int64
}

// evaluate returns the state of a claim that comes after these entries, and what it waits for (see grant.Blocker).
func evaluate(ahead []entry, ask store.Demand) (store.State, blocker) {
	state, by := grant.Blocker(len(ahead), func(i int) store.Demand { return ahead[i].ask() }, ask)
	if by < 0 {
		return state, blocker{}
	}
	return state, newBlocker(ahead[by].kv)
}

func newBlocker(kv *mvccpb.KeyValue) blocker {
	return blocker{string(kv.Key), kv.CreateRevision, kv.ModRevision}
}

const (
	writeBatch = 60  // claims in one transaction that writes or deletes, at most two operations each; etcd allows 128
	lookOps    = 120 // operations in one read
	lookDeep   = 3   // how often a look is repeated for claims whose blocker has changed
)

// look determines the status of claims by linearizable reads: the result is no older than the call. It reads each
// claim's own key and what blocks it. If that has changed, it reads the own key and what is ahead now, both at one
// revision. It pushes for claims that turn out to be held or gone.
func (s *Store) look(ctx context.Context, claims []*claim) error {
	for range lookDeep {
		again, err := s.lookOnce(ctx, claims)
		if err != nil || len(again) == 0 {
			return err
		}
		claims = again
	}
	return nil // it changes faster than one can look: the next event tells
}

// lookOnce reads claims once, in as many transactions as needed. It returns those that have to be read again.
func (s *Store) lookOnce(ctx context.Context, claims []*claim) (again []*claim, err error) {
	for len(claims) > 0 {
		var i inquiry
		s.mu.Lock()
		for len(claims) > 0 && len(i.ops) <= lookOps-2 {
			if c := claims[0]; s.claims[c.ID] == c {
				i.ask(&s.keys, c)
			}
			claims = claims[1:]
		}
		s.mu.Unlock()
		if len(i.questions) == 0 {
			continue
		}
		read, revision, err := s.etcd.read(ctx, i.ops...)
		if err != nil {
			return nil, err
		}
		for _, l := range i.lines {
			l.decode(read.kvs(l.op))
		}
		s.mu.Lock()
		for _, q := range i.questions {
			if !s.answered(&q, read, revision) {
				again = append(again, q.claim)
			}
		}
		s.mu.Unlock()
	}
	return again, nil
}

// An inquiry has the reads of one transaction.
type inquiry struct {
	questions []question
	ops       []clientv3.Op
	lines     map[string]*sharedLine // by name
}

// A sharedLine is a queue that is read and decoded once for all claims that wait in it.
type sharedLine struct {
	op      int     // its place among the operations
	upTo    int64   // the last ticket that matters
	entries []entry // as far as they can be decoded
	err     error   // why those behind them can't
}

// A question has the reads for one claim.
type question struct {
	*claim
	before claim       // as it was when the question was asked
	own    int         // the operation that reads its own key
	ahead  int         // the operation that reads what blocks it, or the claim before it
	line   *sharedLine // if the whole queue is read
	wide   bool        // what is ahead is read, and not just the blocker
}

// ask adds the reads for c.
func (i *inquiry) ask(keys *keySpace, c *claim) {
	waits := c.state == store.Waiting
	q := question{claim: c, before: *c, wide: waits && (c.moved || c.blocker.key == "")}
	switch {
	case q.wide && !c.exclusive():
		q.line = i.readLine(keys, c)
		q.own = q.line.op
	case q.wide:
		q.own = i.add(c.readKey())
		q.ahead = i.add(keys.readLine(c.Name, clientv3.WithKeysOnly(), newestFirst, clientv3.WithLimit(1),
			clientv3.WithMaxCreateRev(int64(c.Ticket-1)))) //nolint:gosec // a revision
	default:
		q.own = i.add(c.readKey())
		if waits {
			q.ahead = i.add(clientv3.OpGet(c.blocker.key, clientv3.WithKeysOnly()))
		}
	}
	i.questions = append(i.questions, q)
}

// add adds an operation, and returns its index.
func (i *inquiry) add(op clientv3.Op) int {
	i.ops = append(i.ops, op)
	return len(i.ops) - 1
}

// readLine adds a read of c's queue, up to the last claim of it in this inquiry.
func (i *inquiry) readLine(keys *keySpace, c *claim) *sharedLine {
	l := i.lines[c.Name]
	if l == nil {
		if i.lines == nil {
			i.lines = map[string]*sharedLine{}
		}
		l = &sharedLine{op: i.add(clientv3.Op{})}
		i.lines[c.Name] = l
	}
	l.upTo = max(l.upTo, int64(c.Ticket)) //nolint:gosec // a revision
	i.ops[l.op] = keys.readLine(c.Name, clientv3.WithMaxCreateRev(l.upTo), oldestFirst)
	return l
}

// decode decodes a queue up to the first value that can't be decoded, which affects only the claims behind it.
func (l *sharedLine) decode(kvs []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		r, err := decode(kv.Value)
		if err != nil {
			l.err = unreadable(kv.Key, err)
			return
		}
		l.entries = append(l.entries, entry{r, kv})
	}
}

// readKey returns the operation that reads the claim's own key. etcd returns the key's lease only with its value, which
// is read if a Detach of the claim may have been carried out.
func (c *claim) readKey() clientv3.Op {
	if c.Unsure {
		return clientv3.OpGet(c.Key)
	}
	return clientv3.OpGet(c.Key, clientv3.WithKeysOnly())
}

// find finds a claim in a queue, and returns the number of claims ahead of it. A key that has another lease is not the
// claim's any more: it is detached.
func (c *claim) find(kvs []*mvccpb.KeyValue) (ahead int, found bool) {
	ticket := int64(c.Ticket) //nolint:gosec // a revision
	ahead, found = slices.BinarySearchFunc(kvs, ticket, func(kv *mvccpb.KeyValue, ticket int64) int {
		return cmp.Compare(kv.CreateRevision, ticket)
	})
	if !found || string(kvs[ahead].Key) != c.Key {
		return ahead, false
	}
	lease := kvs[ahead].Lease
	return ahead, lease == 0 || lease == int64(c.Session.Handle.id)
}

// answered sets the status of a claim from what was read at a revision. It reports false if the claim has to be read
// again.
func (s *Store) answered(q *question, read results, revision int64) bool {
	c := q.claim
	switch {
	case s.claims[c.ID] != c:
		return true // it has left
	case revision < q.before.asOf:
		// etcd went back in time: it was restored from a backup. Nothing that was known of it counts any more.
		s.sessions.Lose(c.Session)
		return true
	case c.asOf > revision:
		return true // something newer is known by now
	}
	ahead, found := c.find(read.kvs(q.own))
	if !found {
		s.gone(c)
		return true
	}
	c.asOf = revision
	c.unknown = nil
	switch {
	case c.state == store.Held || q.before.state == store.Held:
		return true
	case c.ask != q.before.ask:
		return false // it has shrunk meanwhile
	case q.line != nil:
		s.judged(c, q.line, ahead, revision)
		return true
	}
	kvs := read.kvs(q.ahead)
	switch {
	case !q.wide:
		c.moved = c.moved || c.blocker != q.before.blocker || len(kvs) == 0 ||
			kvs[0].CreateRevision != c.blocker.create ||
			!c.exclusive() && kvs[0].ModRevision != c.blocker.mod
		return !c.moved
	case len(kvs) == 0:
		s.hold(c)
	default:
		s.waitFor(c, newBlocker(kvs[0]), revision)
	}
	return true
}

// judged sets the state of c from its queue at a revision, in which that many claims are ahead of c.
func (s *Store) judged(c *claim, l *sharedLine, ahead int, revision int64) {
	if ahead > len(l.entries) {
		c.unknown = l.err
		return
	}
	if state, b := evaluate(l.entries[:ahead], c.ask); state == store.Held {
		s.hold(c)
	} else {
		s.waitFor(c, b, revision)
	}
}

// doubt requests an inspection of c: its key, or what blocks it, has changed.
func (s *Store) doubt(c *claim) {
	if s.claims[c.ID] == c {
		s.doubts.Add(c)
	}
}
