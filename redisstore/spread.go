package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
)

// What is asked about many names goes to many slots in a cluster, to all of them at once.

// bySlot sorts things into their slots, by the lines of their names. It gives their places.
func bySlot[T any](s *Store, things []T, name func(*T) string) map[*shelf][]int {
	places := map[*shelf][]int{}
	for i := range things {
		at := s.shelfOf(s.keys.line(name(&things[i])))
		places[at] = append(places[at], i)
	}
	return places
}

// keepSpread keeps claims in a cluster.
func (s *Store) keepSpread(ctx context.Context, cs []store.Claim, ttl time.Duration) []store.Standing {
	within, cancel := s.frame.Shared(ctx, ttl) // for all steps together
	defer cancel()
	standings := make([]store.Standing, len(cs))
	var all sync.WaitGroup
	for at, places := range bySlot(s, cs, func(c *store.Claim) string { return c.Name }) {
		for batch := range slices.Chunk(places, keepBatch) {
			all.Go(func() {
				claims := make([]store.Claim, len(batch))
				for i, place := range batch {
					claims[i] = cs[place]
				}
				for i, standing := range s.keepHeard(within, at, claims, ttl) {
					standing.Err = s.orSilent(ctx, within, ttl, standing.Err)
					standings[batch[i]] = standing
				}
			})
		}
	}
	all.Wait()
	return standings
}

// keepHeard keeps claims of one slot. Who waits can be told: if nobody listened yet, it is asked anew when somebody
// does, as a push may have been missed.
func (s *Store) keepHeard(ctx context.Context, at *shelf, cs []store.Claim, ttl time.Duration) []store.Standing {
	standings := s.keepSlot(ctx, at, cs, ttl)
	if !slices.ContainsFunc(standings, func(k store.Standing) bool { return k.Err == nil && k.State == store.Waiting }) {
		return standings
	}
	already, err := s.hear(ctx, at, ttl)
	switch {
	case err != nil:
		for i := range standings {
			if standings[i].State == store.Waiting {
				standings[i] = store.Standing{Err: err}
			}
		}
	case !already:
		standings = s.keepSlot(ctx, at, cs, ttl)
	}
	return standings
}

// keepSlot keeps a batch of claims of one slot by one run of a script.
func (s *Store) keepSlot(ctx context.Context, at *shelf, cs []store.Claim, ttl time.Duration) []store.Standing {
	receipt := s.newReceipt()
	answer, sent, err := s.ask(ctx, ttl, at, receipt, func(ctx context.Context, w *wire) rueidis.RedisResult {
		e := s.keeping(w, at, cs)
		return keepScript.Run(ctx, w, e.Keys, e.Args)
	})
	if err != nil {
		if mustAskEach(cs, answer) && !isMoving(answer.Error()) && !isMoved(answer.Error()) {
			var standings []store.Standing
			for i := range cs {
				standings = append(standings, s.keepSlot(ctx, at, cs[i:i+1], ttl)...)
			}
			return standings
		}
		return slices.Repeat([]store.Standing{{Err: err}}, len(cs))
	}
	standings := s.kept(ctx, at, cs, answer, sent)
	s.confirmed(ctx, receipt, cs, standings)
	return standings
}

// listSpread runs list.lua on lines in a cluster.
func (s *Store) listSpread(ctx context.Context, names []string, what ...string) ([]rueidis.RedisMessage, error) {
	answers := make([]rueidis.RedisMessage, len(names))
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for at, places := range bySlot(s, names, func(name *string) string { return *name }) {
		all.Go(func() {
			some := make([]string, len(places))
			for i, place := range places {
				some[i] = names[place]
			}
			got, err := s.listOn(ctx, at, some, what...)
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = err
				return
			}
			for i, place := range places {
				answers[place] = got[i]
			}
		})
	}
	all.Wait()
	return answers, failed
}

// joinHeard makes sure that whoever waits after a Join can be told.
func (s *Store) joinHeard(ctx context.Context, c store.Claim) (store.Standing, error) {
	within, cancel := s.frame.Shared(ctx, c.TTL) // for all steps together
	defer cancel()
	standing, err := s.join(within, c)
	if err != nil || standing.State != store.Waiting {
		return standing, s.orSilent(ctx, within, c.TTL, err)
	}
	already, err := s.hear(within, s.shelfOf(s.keys.line(c.Name)), c.TTL)
	if err == nil && already {
		return standing, nil
	}
	ticket := standing.Ticket
	if err == nil {
		standing, err = s.join(within, c)
	}
	if store.Final(err) {
		return store.Standing{}, s.withdraw(ctx, c, ticket, err)
	}
	return standing, s.orSilent(ctx, within, c.TTL, err)
}

// orSilent is the error of a call of several steps: if they took too long together, that is what is said.
func (s *Store) orSilent(ctx, within context.Context, limit time.Duration, err error) error {
	if err == nil || store.Final(err) || within.Err() == nil || ctx.Err() != nil || s.frame.Closed() {
		return err
	}
	return s.frame.Silent(limit)
}

// withdraw takes back a claim that has joined and whose Join is refused for good all the same. Then nothing must be joined
// (rule 8 of package store). Where that does not work, the caller has to leave, and so the error is not final.
func (s *Store) withdraw(ctx context.Context, c store.Claim, ticket uint64, refused error) error {
	c.Ticket = ticket
	if err := s.Leave(ctx, c); err != nil && !s.frame.Closed() {
		return &store.Fault{Store: s.frame.Name, Err: fmt.Errorf("it has joined and cannot be withdrawn (%v): %v", err, refused)} //nolint:errorlint // these may be final
	}
	return refused
}

// hear makes sure that pushes for claims of a slot come, and says whether they did already.
func (s *Store) hear(ctx context.Context, at *shelf, limit time.Duration) (already bool, err error) {
	within, cancel := s.frame.Shared(ctx, limit)
	defer cancel()
	for attempt := 0; ; attempt++ {
		var w *wire
		if w, already, err = s.subscribe(within, at); err == nil {
			return already, nil
		}
		if _, said := rueidis.IsRedisErr(err); !said {
			w = nil // to subscribe twice does no harm
		}
		if !s.cluster.again(within, at.slot, w, err, attempt) {
			return false, s.frame.Outcome(ctx, within, limit, err)
		}
	}
}

// subscribe subscribes to a slot's channel where the slot is kept now, and looks whether it may be published to.
func (s *Store) subscribe(ctx context.Context, at *shelf) (w *wire, already bool, err error) {
	n, err := s.cluster.keeper(ctx, at.slot)
	if err != nil {
		return nil, false, err
	}
	if w, err = n.pushes.Get(ctx); err != nil {
		return nil, false, err
	}
	if w.hears(at.topic) {
		return w, true, nil
	}
	if err := w.Do(ctx, w.Client.B().Ssubscribe().Channel(at.topic).Build()).Error(); err != nil {
		return w, false, err
	}
	commands, err := n.commands.Get(ctx)
	if err != nil {
		return nil, false, err
	}
	return commands, false, commands.Do(ctx, commands.Client.B().Spublish().Channel(at.topic).Message("").Build()).Error()
}
