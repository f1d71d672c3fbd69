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

// lookTimeout is how long calls wait for a majority that are not about a claim.
const lookTimeout = 2 * time.Second

// gather asks all nodes at once, for lookTimeout at most. When a majority has answered, the others have the time of one
// request left.
func gather[T any](ctx context.Context, s *Store, ask func(context.Context, *node) (T, error)) ([]T, []error) {
	return gatherWithin(ctx, s, lookTimeout, s.rules.Timeout(s.maxTTL), ask)
}

// gatherWithin is gather with other times.
func gatherWithin[T any](
	ctx context.Context, s *Store, limit, late time.Duration, ask func(context.Context, *node) (T, error),
) ([]T, []error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var missing atomic.Int64
	missing.Store(int64(s.rules.Majority()))
	answers, errs := make([]T, len(s.nodes)), make([]error, len(s.nodes))
	began := time.Now()
	var asked sync.WaitGroup
	for i, n := range s.nodes {
		asked.Go(func() {
			if answers[i], errs[i] = ask(ctx, n); errs[i] == nil && missing.Add(-1) == 0 {
				time.AfterFunc(late, cancel)
			}
			errs[i] = silentFor(began, errs[i])
		})
	}
	asked.Wait()
	return answers, errs
}

// askAll puts a request to all nodes at once.
func (s *Store) askAll(ctx context.Context, r vote.Request) []vote.Answer {
	answers, errs := gather(ctx, s, func(ctx context.Context, n *node) (vote.Answer, error) { return s.askOne(ctx, n, r) })
	for i, err := range errs {
		if err != nil {
			answers[i] = vote.Answer{Code: vote.Failed, Err: err}
		}
	}
	return answers
}

// askOne puts a request to one node.
func (s *Store) askOne(ctx context.Context, n *node, r vote.Request) (vote.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	r.MaxTTL = s.maxTTL
	a, _, err := n.ask(ctx, &r)
	if err == nil {
		s.notice(n.index, &a)
	}
	return a, err
}

// enough says whether a majority has answered; the error says why not.
func (s *Store) enough(ctx context.Context, all []vote.Answer) error {
	var counts nodeSet
	for i := range all {
		if s.ill(&all[i]) == nil {
			counts |= 1 << i
		}
	}
	switch {
	case counts.count() >= s.rules.Majority():
		return nil
	case s.frame.Closed():
		return store.ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return s.noMajority(all, counts, lookTimeout)
}

// Line implements store.Store. It shows who has the lock at a majority, or may have, if nodes do not answer. Of those
// who wait, the nodes know nothing.
func (s *Store) Queue(ctx context.Context, name string) (store.Queue, error) {
	line := store.Queue{Name: name}
	if err := s.check(ctx, name); err != nil {
		return line, err
	}
	all := s.askAll(ctx, vote.Request{Op: vote.Look, Key: s.key(name)})
	if err := s.enough(ctx, all); err != nil {
		return line, err
	}
	if a := s.majorityHolder(all); a != nil {
		line.Entries = []store.Entry{*holder(name, a)}
	}
	return line, nil
}

// lookFor looks for the key of a claim that this client does not know, or that is over, and gives the values of it that
// nodes have. Nothing is said of a claim that no node could be asked about. The call that asks has begun at a time, and
// must end within the ttl.
func (s *Store) lookFor(ctx context.Context, c *store.Claim, began time.Time) (values []string, err error) {
	within, cancel := context.WithTimeout(ctx, min(s.rules.Timeout(c.TTL), c.TTL-time.Since(began)))
	defer cancel()
	all := s.askAll(within, vote.Request{Op: vote.Look, Key: s.key(c.Name)})
	for i := range all {
		p := holder(c.Name, &all[i])
		if all[i].Code == vote.Denied && p.ID == c.ID && !slices.Contains(values, all[i].Holder) {
			values = append(values, all[i].Holder)
		}
	}
	return values, s.enough(ctx, all)
}

// leaveUnknown leaves for a claim that this client does not know: it has left already, or another client has joined
// with it. Nobody but that client can do more: what it has not taken yet it may still take.
func (s *Store) leaveUnknown(ctx context.Context, c *store.Claim) error {
	values, err := s.lookFor(ctx, c, time.Now())
	for _, value := range values {
		all := s.askAll(ctx, vote.Request{Op: vote.Leave, Key: s.key(c.Name), Value: value, TTL: c.TTL, Bury: true, Tell: true})
		if err == nil {
			err = s.enough(ctx, all)
		}
	}
	return err
}

// majorityHolder is who has the key at a majority, or may have; nil: nobody. Of several who may have, it is who has the
// most nodes. Its time is up when the majority is gone.
func (s *Store) majorityHolder(all []vote.Answer) *vote.Answer {
	silent := 0
	has := map[string][]vote.Answer{}
	for i := range all {
		switch a := &all[i]; {
		case s.ill(a) != nil:
			silent++
		case a.Code == vote.Denied:
			has[a.Holder] = append(has[a.Holder], *a)
		}
	}
	var same []vote.Answer
	for _, value := range slices.Sorted(maps.Keys(has)) { // in order: of two with as many it is always the same
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
	looks := s.askAll(ctx, vote.Request{Op: vote.Look, Key: s.key(name)})
	all := s.askAll(ctx, vote.Request{Op: vote.Break, Key: s.key(name), Ticket: ticket, TTL: s.maxTTL})
	if i := slices.IndexFunc(looks, func(a vote.Answer) bool { return a.Code == vote.Denied && a.Ticket == ticket }); i >= 0 {
		bury := vote.Request{Op: vote.Leave, Key: s.key(name), Value: looks[i].Holder, TTL: s.maxTTL, Bury: true, Tell: true}
		for i, a := range s.askAll(ctx, bury) {
			if a.Code == vote.Left {
				all[i] = vote.Answer{Code: vote.Granted}
			}
		}
	}
	var broken nodeSet
	for i := range all {
		if all[i].Code == vote.Granted {
			broken |= 1 << i
		}
	}
	switch err := s.enough(ctx, all); {
	case broken.count() >= s.rules.Majority():
		return nil
	case err != nil:
		return err
	case broken == 0:
		return store.ErrNotHeld
	}
	return s.noMajority(all, broken, lookTimeout)
}

// Names implements store.Store: it cannot. A lock's key looks like any other.
func (s *Store) Names(context.Context, string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		yield("", fmt.Errorf("%w: in redlock a lock's key cannot be told from other keys; redis://, etcd:// and sqlite: can list locks", store.ErrUnsupported))
	}
}
