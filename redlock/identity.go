package redlock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// identityKey is where a node has the identity of the deployment: "1 ID".
const identityKey = recordKey + ":id"

// identify asks the nodes for the identity of the deployment: a random text that all of them have. What most have counts.
// So it is the same for all clients, however they call the nodes and in whatever order, and it stays when a minority has
// lost its data. Nodes that have none are given it.
//
// Clients that open a new deployment at the same moment may each make one up. Then all take the one that most nodes have,
// and of several such the least; if nodes fail at that very moment too, they may differ until they are opened again.
func (s *Store) identify(ctx context.Context) error {
	ids, errs := s.identities(ctx, "")
	id, have := most(ids)
	if have < len(s.nodes) {
		if id == "" {
			id = "1 " + rand.Text()
		}
		if ids, errs = s.identities(ctx, id); slices.Max(ids) != "" {
			id, _ = most(ids)
		}
	}
	if err := s.enough(ctx, failures(errs)); err != nil {
		return err
	}
	version, id, _ := strings.Cut(id, " ")
	if version != "1" {
		return fmt.Errorf("%w: the key %q", store.ErrFormat, identityKey)
	}
	s.identity = id + " redlock/" + s.prefix
	return nil
}

// identities are what the nodes have; empty: nothing, or it is not known. Those that have none are given the proposal, if
// there is one.
func (s *Store) identities(ctx context.Context, proposal string) ([]string, []error) {
	return gather(ctx, s, func(ctx context.Context, n *node) (string, error) {
		w, err := n.wire(ctx)
		if err != nil {
			return "", err
		}
		get := w.B().Get().Key(identityKey).Build()
		if proposal == "" {
			return text(w.Do(ctx, get))
		}
		answers := w.DoAll(ctx, []rueidis.Completed{w.B().Set().Key(identityKey).Value(proposal).Nx().Build(), get})
		if err := answers[0].Error(); err != nil && !errors.Is(err, rediswire.Nil) {
			return "", err
		}
		return text(answers[1])
	})
}

// text is an answer of which none is empty.
func text(r rediswire.Reply) (string, error) {
	s, err := r.Text()
	if errors.Is(err, rediswire.Nil) {
		return "", nil
	}
	return s, err
}

// most is the text that most have, and of several such the least; empty ones do not count.
func most(texts []string) (text string, count int) {
	counts := map[string]int{}
	for _, t := range texts {
		if t != "" {
			counts[t]++
		}
	}
	for _, t := range slices.Sorted(maps.Keys(counts)) {
		if counts[t] > count {
			text, count = t, counts[t]
		}
	}
	return text, count
}

// failures are errors as answers of nodes.
func failures(errs []error) []vote.Answer {
	all := make([]vote.Answer, len(errs))
	for i, err := range errs {
		if all[i] = (vote.Answer{Code: vote.Absent}); err != nil {
			all[i] = vote.Answer{Code: vote.Failed, Err: err}
		}
	}
	return all
}
