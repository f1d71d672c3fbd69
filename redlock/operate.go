package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/endpoint"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// Status returns the health of the nodes at a URL, in the order of the URL. It changes nothing, and also works where
// Open fails. The error is about the URL or the options; it never shows a password.
func Status(ctx context.Context, url string, options ...Option) ([]NodeHealth, error) {
	s, err := openForOperator(url, options)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // it has none
	return s.Health(ctx), nil
}

// Init lets the nodes of a new deployment vote at once, and returns the health of all nodes after that. It is for the
// operator who sets up the deployment: without it, a node that was never used votes only after max-ttl, since it might
// have had locks and lost them.
//
// It marks nodes only if all of them respond and none votes: such a deployment is new or has lost everything, and the
// operator who runs Init declares that no client holds a lock there. It then also ends a quarantine that the first use
// has begun. If a node votes, Init changes nothing, so that it can be run again: a node that seems new beside voting
// nodes may have just lost its data, and votes after max-ttl.
//
// It returns a [store.Fault] if a node cannot be marked. No error shows a password.
func Init(ctx context.Context, url string, options ...Option) ([]NodeHealth, error) {
	s, err := openForOperator(url, options)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // it has none
	if err := s.checkNodes(ctx); err != nil {
		return s.Health(ctx), err
	}
	looks := s.requestAll(ctx, vote.Request{Op: vote.Look})
	if slices.ContainsFunc(looks, func(a vote.Answer) bool { return a.Votes }) {
		return s.Health(ctx), nil
	}
	var failed []error
	for i, n := range s.nodes {
		if s.failure(&looks[i]) != nil {
			failed = append(failed, s.nodeError(n, &looks[i]))
		}
	}
	for i := 0; i < len(s.nodes) && len(failed) == 0; i++ {
		if err := s.mark(ctx, s.nodes[i]); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		err = &store.Fault{
			Store: s.frame.Name,
			Err:   fmt.Errorf("the nodes of a deployment are marked only together: %w", errors.Join(failed...)),
		}
	}
	return s.Health(ctx), err
}

// markAttempts is the number of attempts to mark a node: a client may begin its quarantine meanwhile.
const markAttempts = 3

// mark lets a node vote.
func (s *Store) mark(ctx context.Context, n *node) (err error) {
	for range markAttempts {
		var a vote.Answer
		a, err = s.markOne(ctx, n)
		if err = s.grantError(n, &a, err); err == nil {
			return nil
		}
	}
	return err
}

// markOne lets a node vote if its record stays as it is found, or if it has none.
func (s *Store) markOne(ctx context.Context, n *node) (a vote.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	w, err := n.conn(ctx)
	if err != nil {
		return a, err
	}
	record, err := optionalText(w.Do(ctx, w.B().Get().Key(recordKey).Build()))
	if err != nil {
		return a, err
	}
	a, _, err = n.request(ctx, &vote.Request{Op: vote.Init, MaxTTL: s.maxTTL}, record)
	return a, err
}

// Trust declares that the next restart of one node keeps all data, if it comes within ten minutes, so that the node
// goes on voting after it. It returns the health of the node after that. The node is named as in the URL. Trust is for
// an operator who restarts a server as planned, and knows that it writes everything to disk before it responds
// (appendonly yes, appendfsync always). If the restart loses data all the same, two clients may hold one lock.
//
// It returns a [store.Fault] if the node did not accept it. No error shows a password.
func Trust(ctx context.Context, url, named string, options ...Option) (NodeHealth, error) {
	s, err := openForOperator(url, options)
	if err != nil {
		return NodeHealth{}, err
	}
	defer s.Close() //nolint:errcheck // it has none
	address := endpoint.WithPort(named, defaultPort)
	i := slices.IndexFunc(s.nodes, func(n *node) bool { return n.address == address })
	if i < 0 {
		return NodeHealth{}, fmt.Errorf("%s is not one of the nodes in the URL, which are %s", address,
			strings.Join(s.addresses(), ", "))
	}
	n := s.nodes[i]
	a, err := s.requestOne(ctx, n, vote.Request{Op: vote.Trust})
	if err := s.grantError(n, &a, err); err != nil {
		return s.healthOf(ctx, n), &store.Fault{Store: s.frame.Name, Err: err}
	}
	return s.healthOf(ctx, n), nil
}

// grantError returns why a request was not granted, or nil.
func (s *Store) grantError(n *node, a *vote.Answer, err error) error {
	switch {
	case err != nil:
		return s.nodeError(n, &vote.Answer{Code: vote.Failed, Err: err})
	case a.Code != vote.Granted:
		return s.nodeError(n, a)
	}
	return nil
}

// addresses returns the addresses of all nodes, in the order of the URL.
func (s *Store) addresses() []string {
	all := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		all[i] = n.address
	}
	return all
}
