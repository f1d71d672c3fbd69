package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// Status says how the nodes at a URL stand, in the order in which they are named there. It changes nothing, and works also
// where Open would refuse.
func Status(ctx context.Context, at store.Location) ([]NodeHealth, error) {
	s, err := visit(at)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // it has none
	return s.Health(ctx), nil
}

// Init lets the nodes of a new deployment vote at once, and says how all nodes stand then. It is for the operator who sets
// it up: without it, a node that nobody has used votes only after max-ttl, since it might have had locks and lost them.
//
// It marks nodes only if all of them answer and none votes: such a deployment is new, or has lost everything, and whoever
// runs this says that nobody holds a lock there. It then also ends the quarantine that the first use has begun. Where a node
// votes it changes nothing, so that it can be run again: a node that looks new beside others may just have lost its data, and
// votes after max-ttl.
func Init(ctx context.Context, at store.Location) ([]NodeHealth, error) {
	s, err := visit(at)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // it has none
	if err := s.suitable(ctx); err != nil {
		return s.Health(ctx), err
	}
	looks := s.askAll(ctx, vote.Request{Op: vote.Look})
	if slices.ContainsFunc(looks, func(a vote.Answer) bool { return a.Votes }) {
		return s.Health(ctx), nil
	}
	var failed []error
	for i, n := range s.nodes {
		if s.ill(&looks[i]) != nil {
			failed = append(failed, s.nodeError(n, &looks[i]))
		}
	}
	for i := 0; i < len(s.nodes) && len(failed) == 0; i++ {
		if err := s.mark(ctx, s.nodes[i]); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		err = &store.Fault{Store: s.frame.Name, Err: fmt.Errorf("a deployment is marked only as a whole: %w", errors.Join(failed...))}
	}
	return s.Health(ctx), err
}

// markAttempts is how often it is tried to mark a node: meanwhile a client may begin its quarantine.
const markAttempts = 3

// mark lets a node vote.
func (s *Store) mark(ctx context.Context, n *node) (err error) {
	for range markAttempts {
		var a vote.Answer
		a, err = s.markOne(ctx, n)
		if err = s.granted(n, &a, err); err == nil {
			return nil
		}
	}
	return err
}

// markOne lets a node vote if its record stays as it is found, or if it has none.
func (s *Store) markOne(ctx context.Context, n *node) (a vote.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	w, err := n.wire(ctx)
	if err != nil {
		return a, err
	}
	record, err := text(w.Do(ctx, w.B().Get().Key(recordKey).Build()))
	if err != nil {
		return a, err
	}
	a, _, err = n.ask(ctx, &vote.Request{Op: vote.Init, MaxTTL: s.maxTTL}, record)
	return a, err
}

// Trust has one node believe that its next restart keeps all data, if it comes within ten minutes, and says how it stands
// then. The node is named as in the URL. It is for an operator who restarts a server as planned, and knows that it writes
// everything to disk before it answers (appendonly yes, appendfsync always). It goes on voting then. To trust a restart
// that loses data can let two hold one lock.
func Trust(ctx context.Context, at store.Location, named string) (NodeHealth, error) {
	s, err := visit(at)
	if err != nil {
		return NodeHealth{}, err
	}
	defer s.Close() //nolint:errcheck // it has none
	address := withPort(named)
	i := slices.IndexFunc(s.nodes, func(n *node) bool { return n.address == address })
	if i < 0 {
		return NodeHealth{}, fmt.Errorf("%s is none of the nodes in the URL, which are %s", address, strings.Join(s.addresses(), ", "))
	}
	n := s.nodes[i]
	a, err := s.askOne(ctx, n, vote.Request{Op: vote.Trust})
	if err := s.granted(n, &a, err); err != nil {
		return s.examine(ctx, n), &store.Fault{Store: s.frame.Name, Err: err}
	}
	return s.examine(ctx, n), nil
}

// granted says why a request was not granted.
func (s *Store) granted(n *node, a *vote.Answer, err error) error {
	switch {
	case err != nil:
		return s.nodeError(n, &vote.Answer{Code: vote.Failed, Err: err})
	case a.Code != vote.Granted:
		return s.nodeError(n, a)
	}
	return nil
}

func (s *Store) addresses() []string {
	all := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		all[i] = n.address
	}
	return all
}
