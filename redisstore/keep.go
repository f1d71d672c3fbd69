package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// Keep implements store.Store. The claims go out in batches, all at once: each is one run of a script, and in between
// the server serves others. In a cluster a batch is of one slot.
func (s *Store) Keep(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
	ttl, err := s.frame.CheckAll(ctx, cs)
	if err != nil || len(cs) == 0 {
		return nil, err
	}
	var standings []store.Standing
	if s.cluster == nil {
		standings, err = s.keepHome(ctx, cs, ttl)
	} else {
		standings = s.keepSpread(ctx, cs, ttl)
	}
	if err != nil {
		return nil, err
	}
	if err := standings[0].Err; err != nil && !slices.ContainsFunc(standings, func(k store.Standing) bool { return k.Err == nil }) {
		return nil, err
	}
	return standings, nil
}

// keepHome keeps claims on a single server.
func (s *Store) keepHome(ctx context.Context, cs []store.Claim, ttl time.Duration) ([]store.Standing, error) {
	receipt := s.newReceipt()
	bounded, cancel := s.frame.Shared(ctx, ttl)
	defer cancel()
	within := receipt.into(bounded)
	w, err := s.wireTo(within, s.shelf, receipt != nil)
	if err != nil {
		return nil, s.frame.Outcome(ctx, within, ttl, err)
	}
	standings := make([]store.Standing, 0, len(cs))
	sent := time.Now()
	for chunk, answer := range s.keepAll(within, w, cs, keepBatch) {
		if err := answer.Error(); err != nil {
			if _, said := rueidis.IsRedisErr(err); !said {
				return nil, s.frame.Outcome(ctx, within, ttl, err) // nothing came back: it is so for all
			}
		}
		if mustAskEach(chunk, answer) {
			for one, answer := range s.keepAll(within, w, chunk, 1) {
				standings = append(standings, s.kept(within, s.shelf, one, answer, sent)...)
			}
			continue
		}
		standings = append(standings, s.kept(within, s.shelf, chunk, answer, sent)...)
	}
	s.confirmed(ctx, receipt, cs, standings)
	return standings, nil
}

// confirmed takes back what does not count, and notes who waits.
func (s *Store) confirmed(ctx context.Context, receipt *receipt, cs []store.Claim, standings []store.Standing) {
	if receipt == nil {
		return
	}
	for i := range standings {
		if short := receipt.check(standings[i]); short != nil {
			standings[i] = store.Standing{Err: s.frame.Fault(ctx, short)}
		}
		s.confirmer.saw(&cs[i], standings[i], standings[i].Err)
	}
}

// keepAll sends the claims in batches of n, and yields each batch with its answer.
func (s *Store) keepAll(ctx context.Context, w *wire, cs []store.Claim, n int) func(func([]store.Claim, rueidis.RedisResult) bool) {
	return func(yield func([]store.Claim, rueidis.RedisResult) bool) {
		var all []execution
		for chunk := range slices.Chunk(cs, n) {
			all = append(all, s.keeping(w, s.shelf, chunk))
		}
		i := 0
		answers := keepScript.RunAll(ctx, w, all)
		for chunk := range slices.Chunk(cs, n) {
			if !yield(chunk, answers[i]) {
				return
			}
			i++
		}
	}
}

// keeping is one run of keep.lua.
func (s *Store) keeping(w *wire, at *shelf, cs []store.Claim) execution {
	e := execution{
		Keys: make([]string, 0, len(cs)+2),
		Args: append(make([]string, 0, 3*len(cs)+2), w.run, millis(s.guard)),
	}
	for i := range cs {
		c := &cs[i]
		e.Keys = append(e.Keys, s.keys.line(c.Name))
		e.Args = append(e.Args, c.ID.String(), millis(c.TTL+c.Grace), s.said(c, at))
	}
	e.Keys = append(e.Keys, at.mark, at.run)
	return e
}

// mustAskEach says whether the server refused a batch because of one claim in it, so that it is asked about each alone:
// a key that is not ours under one name must not cost the other claims anything.
func mustAskEach(cs []store.Claim, answer rueidis.RedisResult) bool {
	err := answer.Error()
	_, refused := rueidis.IsRedisErr(err)
	return refused && len(cs) > 1 && !rediswire.Passes(err)
}

// kept reads the answer about some claims.
func (s *Store) kept(ctx context.Context, at *shelf, cs []store.Claim, answer rueidis.RedisResult, sent time.Time) []store.Standing {
	standings := make([]store.Standing, len(cs))
	texts, err := answer.AsStrSlice()
	switch {
	case err == nil && len(texts) == 1 && texts[0] != "ok":
		err = s.refusedKey(texts[0], at.run)
	case err == nil && (len(texts) != len(cs)+1 || texts[0] != "ok"):
		err = errShape
	}
	for i := range standings {
		if err != nil {
			standings[i].Err = s.frame.Fault(ctx, err)
			continue
		}
		words := words{rest: texts[i+1]}
		standing, ok := words.standing()
		if !ok {
			standing = store.Standing{Err: s.refused(texts[i+1], cs[i].Name)}
		}
		standing.Until = s.frame.Drift.Until(standing.State, sent, cs[i].TTL)
		standings[i] = standing
	}
	return standings
}
