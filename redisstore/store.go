package redisstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
)

// MinTTL and MaxTTL bound the ttl of a claim.
const (
	MinTTL = 50 * time.Millisecond
	MaxTTL = 7 * 24 * time.Hour
)

const (
	askTimeout = 10 * time.Second     // bounds the calls that no ttl bounds
	askAfter   = 2 * time.Millisecond // a claim that is out at a moment is asked about so much later
	maxExact   = 1<<53 - 1            // the greatest number that the scripts compute exactly
	keepBatch  = 64                   // claims in one run of keep.lua, which then takes well under 2 ms
)

// drift is how much earlier than the server a client believes its claim to be over: the two clocks may differ in pace
// by 1 %, and the server counts in whole milliseconds.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// A Store is one client's connection to a Redis server. It implements store.Store.
type Store struct {
	settings
	client   rueidis.Client
	secret   string // the password, which must not get into an error
	owned    bool   // whether the client is ours to close
	called   string
	keys     keySpace
	channel  string // where its pushes go, after keys.pushes
	identity string
	server   Server

	commands plug
	pushes   plug
	encoder  encoder
	notify   atomic.Pointer[func(store.ID, store.Standing)]

	closed  atomic.Bool
	life    context.Context // ends with Close
	end     context.CancelFunc
	reached chan struct{} // holds a token when the server was reached again
	tasks   sync.WaitGroup
	shared  atomic.Pointer[bounded]
}

var _ store.Store = (*Store)(nil)

// Server says what the server said of itself when the store was opened.
func (s *Store) Server() Server { return s.server }

// Join implements store.Store.
func (s *Store) Join(ctx context.Context, c store.Claim) (store.Standing, error) {
	if err := s.check(ctx, c.Name); err != nil {
		return store.Standing{}, err
	}
	if c.Floor >= maxExact {
		return store.Standing{}, store.ErrFloor
	}
	keys := append(make([]string, 0, 3), s.keys.line(c.Name), s.keys.mark)
	args := append(make([]string, 0, 6), "", millis(c.TTL+c.Grace), strconv.FormatUint(c.Floor, 10))
	if c.Try {
		args = append(args, "try")
	}
	answer, sent, err := s.ask(ctx, c.TTL, func(ctx context.Context, w *wire) rueidis.RedisResult {
		args[0] = s.describe(&c, w)
		if s.guard == 0 {
			return joinScript.run(ctx, w, keys, args)
		}
		return joinScript.run(ctx, w, append(keys, s.keys.run), append(append(args, "")[:4], millis(s.guard), w.run))
	})
	if err != nil {
		return store.Standing{}, err
	}
	return s.joined(answer, sent, &c)
}

// joined reads the answer to a Join.
func (s *Store) joined(answer rueidis.RedisResult, sent time.Time, c *store.Claim) (store.Standing, error) {
	if ticket, err := answer.ToInt64(); err == nil && ticket > 0 {
		standing := store.Standing{State: store.Held, Ticket: uint64(ticket)} //nolint:gosec // it is positive
		standing.Until = until(standing, sent, c.TTL)
		return standing, nil
	}
	text, err := answer.ToString()
	if err != nil {
		return store.Standing{}, s.refused(err.Error(), c.Name)
	}
	w := words{rest: text}
	if standing, ok := w.standing(); ok {
		standing.Until = until(standing, sent, c.TTL)
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
		return store.Standing{}, &store.Fault{Store: s.called,
			Err: fmt.Errorf("it was started again or has lost its data, and nothing is granted for another %v (guard)", left)}
	}
	return store.Standing{}, s.refused(text, c.Name)
}

// describe is what join.lua is told of a claim: "ID REST" (see line.lua).
func (s *Store) describe(c *store.Claim, w *wire) string {
	about := s.encoder.about(c)
	b := make([]byte, 0, len(about)+128)
	b = append(hex.AppendEncode(b, c.ID[:]), ' ')
	b = append(strconv.AppendInt(b, w.serverMillis(), 10), ' ')
	return string(s.appendRest(b, c, about))
}

// said is what keep.lua is told of a claim: REST from KIND on.
func (s *Store) said(c *store.Claim) string {
	about := s.encoder.about(c)
	return string(s.appendRest(make([]byte, 0, len(about)+80), c, about))
}

// appendRest appends "KIND LIMIT UNITS TTL GRACE CHANNEL ABOUT".
func (s *Store) appendRest(b []byte, c *store.Claim, about string) []byte {
	for _, n := range [...]int64{int64(c.Kind), int64(c.Limit), int64(c.Units), ceilMillis(c.TTL), ceilMillis(c.Grace)} {
		b = append(strconv.AppendInt(b, n, 10), ' ')
	}
	b = append(append(b, s.channel...), ' ')
	return append(b, about...)
}

// Leave implements store.Store.
func (s *Store) Leave(ctx context.Context, c store.Claim) error {
	if err := s.check(ctx, c.Name); err != nil {
		return err
	}
	keys := append(make([]string, 0, 2), s.keys.line(c.Name))
	args := make([]string, 1, 4)
	if c.Ticket != 0 {
		args[0] = "1 s " + strconv.FormatUint(c.Ticket, 10) + " " + c.ID.String()
	} else {
		args[0] = c.ID.String()
		args = append(args, millis(c.TTL)) // it may still come (rule 8 of package store)
	}
	answer, _, err := s.ask(ctx, c.TTL, func(ctx context.Context, w *wire) rueidis.RedisResult {
		if s.guard == 0 {
			return leaveScript.run(ctx, w, keys, args)
		}
		return leaveScript.run(ctx, w, append(keys, s.keys.run), append(append(args, "0")[:2], millis(s.guard), w.run))
	})
	if err != nil {
		return err
	}
	return s.expectDone(answer, c.Name)
}

// Break implements store.Store.
func (s *Store) Break(ctx context.Context, name string, ticket uint64) error {
	if err := s.check(ctx, name); err != nil {
		return err
	}
	if ticket > maxExact {
		return store.ErrNotHeld
	}
	keys := []string{s.keys.line(name), s.keys.run}
	answer, _, err := s.ask(ctx, askTimeout, func(ctx context.Context, w *wire) rueidis.RedisResult {
		return breakScript.run(ctx, w, keys, []string{strconv.FormatUint(ticket, 10), w.run, millis(s.guard)})
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
func (s *Store) Notify(fn func(store.ID, store.Standing)) { s.notify.Store(&fn) }

// Abilities implements store.Store.
func (s *Store) Abilities() store.Abilities {
	return store.Abilities{
		Store:        s.called,
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
	if s.closed.Swap(true) {
		return nil
	}
	s.end()
	s.tasks.Go(s.commands.close)
	s.tasks.Go(s.pushes.close)
	s.tasks.Wait()
	if s.owned {
		s.client.Close()
	}
	return nil
}

// check refuses a call that must not be made.
func (s *Store) check(ctx context.Context, name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	return s.alive(ctx)
}

func (s *Store) alive(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// ask makes a call over the wire, and says when it was sent. If ctx has no deadline, it gives up after limit.
func (s *Store) ask(ctx context.Context, limit time.Duration, call func(context.Context, *wire) rueidis.RedisResult) (
	answer rueidis.RedisResult, sent time.Time, err error) {
	within, cancel := s.within(ctx, limit)
	defer cancel()
	w, err := s.commands.get(within)
	if err == nil {
		sent = time.Now()
		answer = call(within, w)
		err = answer.Error()
	}
	if err == nil || errors.Is(err, rueidis.Nil) {
		return answer, sent, nil
	}
	return answer, sent, s.failed(ctx, within, limit, err)
}

// failed explains the error of a call.
func (s *Store) failed(ctx, within context.Context, limit time.Duration, err error) error {
	if within.Err() != nil && ctx.Err() == nil && !s.closed.Load() {
		return s.silent(limit)
	}
	return s.fault(ctx, err)
}

// until is the local instant up to which a claim stands whose Join or Keep was sent then (rule 5 of package store).
func until(standing store.Standing, sent time.Time, ttl time.Duration) time.Time {
	if standing.State == store.Gone {
		return time.Time{}
	}
	return sent.Add(ttl - drift(ttl))
}

// ceilMillis is d in milliseconds, rounded up: the server never counts less than was asked for.
func ceilMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func millis(d time.Duration) string { return strconv.FormatInt(ceilMillis(d), 10) }
