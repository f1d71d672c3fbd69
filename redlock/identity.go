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

// identityKey is the key with the identity of the deployment: "1 ID".
const identityKey = recordKey + ":id"

// identify reads the identity of the deployment from the nodes: a random text that all of them have. The text that most
// have counts. So it is the same for all clients, however they name the nodes and in any order, and it stays when a
// minority has lost its data. Nodes that have none receive it.
//
// Clients that open a new deployment at the same moment may each generate one. Then all use the one that most nodes
// have, and in a tie the least; if nodes fail at that very moment too, clients may differ until they are opened again.
func (s *Store) identify(ctx context.Context) error {
	ids, errs := s.identities(ctx, "")
	id, have := mostCommon(ids)
	if have < len(s.nodes) {
		if id == "" {
			id = "1 " + rand.Text()
		}
		if ids, errs = s.identities(ctx, id); slices.Max(ids) != "" {
			id, _ = mostCommon(ids)
		}
	}
	answers := slices.Repeat([]vote.Answer{{Code: vote.Absent}}, len(errs))
	if err := s.checkMajority(ctx, withFailures(answers, errs)); err != nil {
		return err
	}
	version, id, _ := strings.Cut(id, " ")
	if version != "1" {
		return fmt.Errorf("%w: the key %q", store.ErrFormat, identityKey)
	}
	s.identity = id + " redlock/" + s.prefix
	return nil
}

// identities returns what the nodes have; empty: nothing, or unknown. Nodes that have none receive the proposal, if
// there is one.
func (s *Store) identities(ctx context.Context, proposal string) ([]string, []error) {
	return gather(ctx, s, func(ctx context.Context, n *node) (string, error) {
		w, err := n.conn(ctx)
		if err != nil {
			return "", err
		}
		get := w.B().Get().Key(identityKey).Build()
		if proposal == "" {
			return optionalText(w.Do(ctx, get))
		}
		answers := w.DoAll(ctx, []rueidis.Completed{w.B().Set().Key(identityKey).Value(proposal).Nx().Build(), get})
		if err := answers[0].Error(); err != nil && !errors.Is(err, rediswire.ErrNil) {
			return "", err
		}
		return optionalText(answers[1])
	})
}

// optionalText returns the text of a reply, which is empty if there is none.
func optionalText(r rediswire.Reply) (string, error) {
	s, err := r.Text()
	if errors.Is(err, rediswire.ErrNil) {
		return "", nil
	}
	return s, err
}

// mostCommon returns the most frequent text and its count, in a tie the least text. Empty texts do not count.
func mostCommon(texts []string) (text string, count int) {
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
