package redisstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// MinTTL and MaxTTL bound the ttl of a claim.
const (
	MinTTL = 50 * time.Millisecond
	MaxTTL = 7 * 24 * time.Hour
)

const (
	askAfter  = 2 * time.Millisecond // a claim that is out at a moment is asked about so much later
	maxExact  = 1<<53 - 1            // the greatest number that the scripts compute exactly
	keepBatch = 64                   // claims in one run of keep.lua, which then takes well under 2 ms
)

// A Store is one client's connection to a Redis server. It implements store.Store.
type Store struct {
	settings
	frame    *frame.Frame
	keys     keySpace
	channel  string // where its pushes go, after keys.pushes
	identity string
	server   Server
	met      sync.Once // sets server

	home      *node      // where everything is kept; nil in a cluster
	shelf     *shelf     // the only one; nil in a cluster
	cluster   *cluster   // nil: it is one server
	confirmer *confirmer // with replicas that must acknowledge; otherwise nil
	sentinels *sentinels // who know where that is; nil: it stays where it is
	encoder   encoder
	overhear  atomic.Pointer[func(channel string)] // is told of every message: plain mode has channels of its own
	reached   chan struct{}                        // holds a token when the server was reached again
}

var _ store.Store = (*Store)(nil)

// Server says what the server said of itself when the store was opened.
func (s *Store) Server() Server { return s.server }

// Join implements store.Store.
func (s *Store) Join(ctx context.Context, c store.Claim) (store.Standing, error) {
	if err := s.frame.Check(ctx, c.Name); err != nil {
		return store.Standing{}, err
	}
	if c.Floor >= maxExact {
		return store.Standing{}, store.ErrFloor
	}
	join := s.join
	if s.cluster != nil {
		join = s.joinHeard
	}
	if s.confirmer == nil {
		return join(ctx, c)
	}
	s.confirmer.joining(c)
	standing, err := join(ctx, c)
	s.confirmer.saw(&c, standing, err)
	return standing, err
}

func (s *Store) join(ctx context.Context, c store.Claim) (store.Standing, error) {
	line := s.keys.line(c.Name)
	at := s.shelfOf(line)
	keys := append(make([]string, 0, 3), line, at.mark)
	args := append(make([]string, 0, 6), "", millis(c.TTL+c.Grace), strconv.FormatUint(c.Floor, 10))
	if c.Try {
		args = append(args, "try")
	}
	receipt := s.newReceipt()
	answer, sent, err := s.ask(ctx, c.TTL, at, receipt, func(ctx context.Context, w *wire) rueidis.RedisResult {
		args[0] = s.describe(&c, at, w)
		if s.guard == 0 && s.cluster == nil {
			return joinScript.Run(ctx, w, keys, args)
		}
		full := append(slices.Clone(args), "")[:4:4] // the fourth is empty unless it is a try
		full = append(full, millis(s.guard), w.run)
		joining := time.Now()
		if s.cluster != nil {
			full = append(full, w.pace(at.slot, joining))
		}
		answer := joinScript.Run(ctx, w, append(keys, at.run), full)
		if word, _ := answer.ToString(); word == "run" { // the slot has been elsewhere, and nobody said so on this connection
			w.depart(at.slot)
			if err := s.arriveFirst(ctx, w, at); err != nil {
				return rueidis.NewErrorResult(err)
			}
			answer = joinScript.Run(ctx, w, append(keys, at.run), full)
		}
		if s.cluster != nil && answer.Error() == nil {
			w.joinedIn(at.slot, joining)
		}
		return answer
	})
	if err != nil {
		return store.Standing{}, err
	}
	standing, err := s.joined(answer, sent, &c)
	if short := receipt.check(standing); short != nil {
		return store.Standing{}, s.frame.Fault(ctx, short)
	}
	return standing, err
}

// joined reads the answer to a Join.
func (s *Store) joined(answer rueidis.RedisResult, sent time.Time, c *store.Claim) (store.Standing, error) {
	if ticket, err := answer.ToInt64(); err == nil && ticket > 0 {
		standing := store.Standing{State: store.Held, Ticket: uint64(ticket)} //nolint:gosec // it is positive
		standing.Until = s.frame.Drift.Until(standing.State, sent, c.TTL)
		return standing, nil
	}
	text, err := answer.ToString()
	if err != nil {
		return store.Standing{}, s.refused(err.Error(), c.Name)
	}
	w := words{rest: text}
	if standing, ok := w.standing(); ok {
		standing.Until = s.frame.Drift.Until(standing.State, sent, c.TTL)
		return standing, nil
	}
	w = words{rest: text}
	switch w.next() {
	case "l":
		standing := store.Standing{Ahead: int(w.number(32))}
		if holder, ok := w.place(c.Name); ok && holder.State == store.Held {
			standing.Holder = &holder
		}
		return standing, nil
	case "b":
		left := w.millis()
		return store.Standing{}, &store.Fault{Store: s.frame.Name,
			Err: fmt.Errorf("it was started again or has lost its data, and nothing is granted for another %v (guard)", left)}
	case "mark":
		return store.Standing{}, s.badMark(s.shelfOf(s.keys.line(c.Name)), w.rest)
	case "mismatch":
		inUse := store.Ask{Kind: store.Kind(w.number(8)), Limit: int32(w.number(32))} //nolint:gosec // of so many bits
		if !w.bad {
			return store.Standing{}, &store.MismatchError{InUse: inUse}
		}
	}
	return store.Standing{}, s.refused(text, c.Name)
}

// describe is what join.lua is told of a claim: "ID REST" (see line.lua).
func (s *Store) describe(c *store.Claim, at *shelf, w *wire) string {
	about := s.encoder.about(c)
	b := make([]byte, 0, len(about)+128)
	b = append(hex.AppendEncode(b, c.ID[:]), ' ')
	b = append(strconv.AppendInt(b, w.serverMillis(), 10), ' ')
	return string(appendRest(b, c, at, about))
}

// said is what keep.lua is told of a claim: REST from KIND on.
func (s *Store) said(c *store.Claim, at *shelf) string {
	about := s.encoder.about(c)
	return string(appendRest(make([]byte, 0, len(about)+80), c, at, about))
}

// appendRest appends "KIND LIMIT UNITS TTL GRACE CHANNEL ABOUT".
func appendRest(b []byte, c *store.Claim, at *shelf, about string) []byte {
	for _, n := range [...]int64{int64(c.Kind), int64(c.Limit), int64(c.Units), ceilMillis(c.TTL), ceilMillis(c.Grace)} {
		b = append(strconv.AppendInt(b, n, 10), ' ')
	}
	b = append(append(b, at.channel...), ' ')
	return append(b, about...)
}

// Leave implements store.Store.
func (s *Store) Leave(ctx context.Context, c store.Claim) error {
	if err := s.frame.Check(ctx, c.Name); err != nil {
		return err
	}
	if s.confirmer != nil {
		s.confirmer.forget(c.ID)
	}
	line := s.keys.line(c.Name)
	at := s.shelfOf(line)
	keys := append(make([]string, 0, 2), line)
	args := make([]string, 1, 4)
	if c.Ticket != 0 {
		args[0] = "1 s " + strconv.FormatUint(c.Ticket, 10) + " " + c.ID.String()
	} else {
		args[0] = c.ID.String()
		args = append(args, millis(c.TTL)) // it may still come (rule 8 of package store)
	}
	answer, _, err := s.ask(ctx, c.TTL, at, nil, func(ctx context.Context, w *wire) rueidis.RedisResult {
		if s.guard == 0 {
			return leaveScript.Run(ctx, w, keys, args)
		}
		return leaveScript.Run(ctx, w, append(keys, at.run), append(append(args, "0")[:2], millis(s.guard), w.run))
	})
	if err != nil {
		return err
	}
	return s.expectDone(answer, c.Name)
}

// Break implements store.Store.
func (s *Store) Break(ctx context.Context, name string, ticket uint64) error {
	if err := s.frame.Check(ctx, name); err != nil {
		return err
	}
	if ticket > maxExact {
		return store.ErrNotHeld
	}
	line := s.keys.line(name)
	at := s.shelfOf(line)
	keys := []string{line, at.run}
	answer, _, err := s.ask(ctx, frame.AskTimeout, at, nil, func(ctx context.Context, w *wire) rueidis.RedisResult {
		return breakScript.Run(ctx, w, keys, []string{strconv.FormatUint(ticket, 10), w.run, millis(s.guard)})
	})
	if err != nil {
		return err
	}
	return s.expectDone(answer, name)
}

// expectDone reads an answer that says only whether it worked.
func (s *Store) expectDone(answer rueidis.RedisResult, name string) error {
	if n, err := answer.ToInt64(); err == nil && n == 1 {
		return nil
	}
	text, err := answer.ToString()
	switch {
	case err != nil:
		return s.refused(err.Error(), name)
	case text == "nobody":
		return store.ErrNotHeld
	}
	return s.refused(text, name)
}

// Notify implements store.Store.
func (s *Store) Notify(fn func(store.ID, store.Standing)) { s.frame.Notify(fn) }

// Abilities implements store.Store.
func (s *Store) Abilities() store.Abilities {
	return store.Abilities{
		Store:        s.frame.Name,
		Identity:     s.identity,
		Line:         true,
		Shared:       true,
		Grace:        true,
		MinTTL:       MinTTL,
		MaxTTL:       MaxTTL,
		TakeoverTTLs: 1,
		TakeoverPlus: 50 * time.Millisecond,
		ExactWake:    true,
		Tokens:       store.SurvivesRestart | store.SurvivesDataLoss | store.SurvivesClockBack | store.SurvivesFailover,
	}
}

// Close implements store.Store. Claims that were not left stand until their ttl has passed.
func (s *Store) Close() error {
	if !s.frame.Shut() {
		return nil
	}
	s.frame.End()
	if s.cluster != nil {
		s.cluster.close()
	}
	if s.home != nil {
		s.home.close()
	}
	s.frame.Wait()
	return nil
}

// shelfOf is what lies where this line lies.
func (s *Store) shelfOf(line string) *shelf {
	if s.cluster == nil {
		return s.shelf
	}
	return s.cluster.shelf(slotOf(line))
}

// A call asks something over a wire.
type call = func(context.Context, *wire) rueidis.RedisResult

// ask makes a call about what lies on a shelf, and says when it was sent. If ctx has no deadline, it gives up after limit.
// With a receipt, replicas have to acknowledge what it writes.
func (s *Store) ask(ctx context.Context, limit time.Duration, at *shelf, receipt *receipt, call call) (
	answer rueidis.RedisResult, sent time.Time, err error) {
	bounded, cancel := s.frame.Shared(ctx, limit)
	defer cancel()
	within := receipt.into(bounded)
	for attempt := 0; ; attempt++ {
		var w *wire
		if w, err = s.wireTo(within, at, receipt != nil); err == nil {
			sent = time.Now()
			if err = s.arriveFirst(within, w, at); err == nil {
				answer = call(within, w)
				err = answer.Error()
			}
		}
		if err == nil || errors.Is(err, rueidis.Nil) {
			return answer, sent, nil
		}
		if s.cluster == nil || !s.cluster.again(within, at.slot, w, err, attempt) {
			return answer, sent, s.frame.Outcome(ctx, within, limit, err)
		}
	}
}

// wireTo is a connection to where a shelf is.
func (s *Store) wireTo(ctx context.Context, at *shelf, acked bool) (*wire, error) {
	if s.cluster == nil {
		return s.home.plug(acked).Get(ctx)
	}
	n, err := s.cluster.keeper(ctx, at.slot)
	if err != nil {
		return nil, err
	}
	return n.plug(acked).Get(ctx)
}

// arriveFirst looks at the mark of a slot before anything else is done there over this connection.
func (s *Store) arriveFirst(ctx context.Context, w *wire, at *shelf) error {
	if s.cluster == nil || w.hasArrived(at.slot) {
		return nil
	}
	if !w.probed.Load() {
		if err := s.probe(ctx, w, at); err != nil {
			return err
		}
		w.probed.Store(true)
	}
	err := s.arrive(ctx, w, at)
	if err == nil {
		w.arrived(at.slot)
	}
	return err
}

// ceilMillis is d in milliseconds, rounded up: the server never counts less than was asked for.
func ceilMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func millis(d time.Duration) string { return strconv.FormatInt(ceilMillis(d), 10) }
