package redlock

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// requestTimeout bounds calls that are not about a claim.
const requestTimeout = 2 * time.Second

// eachNode calls do for all nodes at once, and waits until all calls have returned.
func (s *Store) eachNode(do func(i int, n *node)) {
	var all sync.WaitGroup
	for i, n := range s.nodes {
		all.Go(func() { do(i, n) })
	}
	all.Wait()
}

// gather calls ask for all nodes at once, for requestTimeout at most. After a majority has responded, the other nodes
// have the timeout of one request.
func gather[T any](ctx context.Context, s *Store, ask func(context.Context, *node) (T, error)) ([]T, []error) {
	return gatherWithin(ctx, s, requestTimeout, s.rules.Timeout(s.maxTTL), ask)
}

// gatherWithin is gather with other timeouts.
func gatherWithin[T any](
	ctx context.Context, s *Store, limit, late time.Duration, ask func(context.Context, *node) (T, error),
) ([]T, []error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var missing atomic.Int64
	missing.Store(int64(s.rules.Majority()))
	answers, errs := make([]T, len(s.nodes)), make([]error, len(s.nodes))
	began := time.Now()
	s.eachNode(func(i int, n *node) {
		if answers[i], errs[i] = ask(ctx, n); errs[i] == nil && missing.Add(-1) == 0 {
			time.AfterFunc(late, cancel)
		}
		errs[i] = silenceOr(began, errs[i])
	})
	return answers, errs
}

// requestAll sends a request to all nodes at once.
func (s *Store) requestAll(ctx context.Context, r vote.Request) []vote.Answer {
	return withFailures(gather(ctx, s,
		func(ctx context.Context, n *node) (vote.Answer, error) { return s.requestOne(ctx, n, r) }))
}

// withFailures returns answers with errs in place of those that failed.
func withFailures(answers []vote.Answer, errs []error) []vote.Answer {
	for i, err := range errs {
		if err != nil {
			answers[i] = vote.Answer{Code: vote.Failed, Err: err}
		}
	}
	return answers
}

// nodesWith returns the nodes whose answers meet a condition.
func nodesWith(all []vote.Answer, condition func(*vote.Answer) bool) (nodes nodeSet) {
	for i := range all {
		if condition(&all[i]) {
			nodes |= 1 << i
		}
	}
	return nodes
}

// requestOne sends a request to one node.
func (s *Store) requestOne(ctx context.Context, n *node, r vote.Request) (vote.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r.MaxTTL = s.maxTTL
	a, _, err := n.request(ctx, &r)
	if err == nil {
		s.observe(n.index, &a)
	}
	return a, err
}

// checkMajority returns an error if no majority has responded.
func (s *Store) checkMajority(ctx context.Context, all []vote.Answer) error {
	counts := nodesWith(all, func(a *vote.Answer) bool { return s.failure(a) == nil })
	switch {
	case counts.count() >= s.rules.Majority():
		return nil
	case s.frame.Closed():
		return store.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return s.noMajority(all, counts, 0, requestTimeout)
}

// Queue implements store.Store. It shows the holder that has the lock at a majority, or may have it if nodes do not
// respond. The nodes know nothing of waiters.
func (s *Store) Queue(ctx context.Context, name string) (store.Queue, error) {
	line := store.Queue{Name: name}
	if err := s.check(ctx, name); err != nil {
		return line, err
	}
	all := s.requestAll(ctx, vote.Request{Op: vote.Look, Key: s.key(name)})
	if err := s.checkMajority(ctx, all); err != nil {
		return line, err
	}
	if a := s.majorityHolder(all); a != nil {
		line.Entries = []store.Entry{*holder(name, a)}
	}
	return line, nil
}

// findKey reads the key of a claim that this client does not know, or that is over, and returns the values of the claim
// that nodes have. It returns an error if no majority responds. The call began at a given time, and must end within the
// ttl.
func (s *Store) findKey(ctx context.Context, c *store.Claim, began time.Time) (values []string, err error) {
	within, cancel := context.WithTimeout(ctx, min(s.rules.Timeout(c.TTL), c.TTL-time.Since(began)))
	defer cancel()
	all := s.requestAll(within, vote.Request{Op: vote.Look, Key: s.key(c.Name)})
	for i := range all {
		p := holder(c.Name, &all[i])
		if all[i].Code == vote.Denied && p.ID == c.ID && !slices.Contains(values, all[i].Holder) {
			values = append(values, all[i].Holder)
		}
	}
	return values, s.checkMajority(ctx, all)
}

// leaveUnknown leaves for a claim that this client does not know: it has left already, or another client has joined
// with it. Only that client could do more: a take of it that is still on its way may arrive later.
func (s *Store) leaveUnknown(ctx context.Context, c *store.Claim) error {
	values, err := s.findKey(ctx, c, time.Now())
	for _, value := range values {
		all := s.buryAll(ctx, c.Name, value, c.TTL)
		if err == nil {
			err = s.checkMajority(ctx, all)
		}
	}
	return err
}

// buryAll takes a name away from a value at all nodes, and keeps that value from having it again within ttl.
func (s *Store) buryAll(ctx context.Context, name, value string, ttl time.Duration) []vote.Answer {
	return s.requestAll(ctx,
		vote.Request{Op: vote.Leave, Key: s.key(name), Value: value, TTL: ttl, Bury: true, Tell: true})
}

// majorityHolder returns the holder that has the key at a majority, or may have it, or nil. Of several that may have
// it, it returns the one with the most nodes. Its time ends when the majority is gone.
func (s *Store) majorityHolder(all []vote.Answer) *vote.Answer {
	silent := 0
	has := map[string][]vote.Answer{}
	for i := range all {
		switch a := &all[i]; {
		case s.failure(a) != nil:
			silent++
		case a.Code == vote.Denied:
			has[a.Holder] = append(has[a.Holder], *a)
		}
	}
	var same []vote.Answer
	for _, value := range slices.Sorted(maps.Keys(has)) { // sorted, so that a tie always has the same result
		if len(has[value]) > len(same) {
			same = has[value]
		}
	}
	if len(same) == 0 || len(same)+silent < s.rules.Majority() {
		return nil
	}
	slices.SortFunc(same, func(a, b vote.Answer) int { return -cmp.Compare(endless(a.Left), endless(b.Left)) })
	a := same[min(len(same), s.rules.Majority())-1]
	for i := range same {
		a.Ticket = max(a.Ticket, same[i].Ticket)
	}
	return &a
}

// endless is a time left of which less than 0 is without end.
func endless(left time.Duration) time.Duration {
	if left < 0 {
		return 1<<63 - 1
	}
	return left
}

// Break implements store.Store. The holder is out when a majority has taken the lock away from it, and no renewal
// brings it back: so its value is buried also where it has no key, or it would go on with those nodes. If fewer have,
// the error says so, and it can be repeated.
func (s *Store) Break(ctx context.Context, name string, ticket uint64) error {
	if err := s.check(ctx, name); err != nil {
		return err
	}
	if ticket == 0 || ticket > vote.MaxTicket {
		return store.ErrNotHeld
	}
	looks := s.requestAll(ctx, vote.Request{Op: vote.Look, Key: s.key(name)})
	all := s.requestAll(ctx, vote.Request{Op: vote.Break, Key: s.key(name), Ticket: ticket, TTL: s.maxTTL})
	isHolder := func(a vote.Answer) bool { return a.Code == vote.Denied && a.Ticket == ticket }
	if i := slices.IndexFunc(looks, isHolder); i >= 0 {
		for i, a := range s.buryAll(ctx, name, looks[i].Holder, s.maxTTL) {
			if a.Code == vote.Left {
				all[i] = vote.Answer{Code: vote.Granted}
			}
		}
	}
	broken := nodesWith(all, func(a *vote.Answer) bool { return a.Code == vote.Granted })
	switch err := s.checkMajority(ctx, all); {
	case broken.count() >= s.rules.Majority():
		return nil
	case err != nil:
		return err
	case broken == 0:
		return store.ErrNotHeld
	}
	return s.noMajority(all, broken, 0, requestTimeout)
}

// Names implements store.Store: it cannot. A lock's key looks like any other.
func (s *Store) Names(context.Context, string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		yield("", fmt.Errorf("%w: in redlock a lock's key cannot be told from other keys; redis://, etcd:// and "+
			"sqlite: can list locks", store.ErrUnsupported))
	}
}
