package redisstore

import (
	"context"
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// The scripts. Their headers describe arguments, replies and invariants; queue.lua describes the layout of the keys.
var (
	probeScript = newScript("probe.lua")
	joinScript  = newScript("join.lua")
	keepScript  = newScript("keep.lua")
	leaveScript = newScript("leave.lua")
	breakScript = newScript("break.lua")
	listScript  = newScript("list.lua")
)

//go:embed *.lua
var sources embed.FS

// newScript returns a script of these files, one after the other, with queue.lua in place of the include directive.
// Code before that directive runs without queue.lua: on the fast path its functions are not even defined.
func newScript(files ...string) *script { return rediswire.LoadScript(sources, files...) }

const (
	askAfter  = 2 * time.Millisecond // a claim that is out at a moment is asked about so much later
	maxExact  = 1<<53 - 1            // the greatest number that the scripts compute exactly
	keepBatch = 64                   // claims in one run of keep.lua, which then takes well under 2 ms
)

// lines is the mode that keeps a queue for each name.
type lines struct {
	*base
	owners rediskey.Owners // each as an about
}

// newLines returns the mode with queues.
func newLines(b *base) *lines {
	s := &lines{base: b}
	b.receive = s.onMessage
	return s
}

// Join implements store.Store.
func (s *lines) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	call, err := s.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	if c.Floor >= maxExact {
		return store.Status{}, store.ErrFloor
	}
	standing, err := s.join(call.Context, &c)
	if err == nil && standing.State == store.Waiting {
		standing, err = s.joinHeard(ctx, &call, &c, standing)
	}
	if err := call.Outcome(err); err != nil {
		return store.Status{}, err
	}
	return standing, nil
}

// join runs join.lua.
func (s *lines) join(ctx context.Context, c *store.Claim) (store.Status, error) {
	line := s.keys.line(c.Name)
	at := s.topology.keysFor(line)
	keys := append(make([]string, 0, 3), line, at.mark)
	args := make([]string, 3, 7)
	how := joinHow(c)
	if how != "" {
		args = append(args, how)
	}
	var answer rediswire.Reply
	try := s.try(at, true)
	for try.next(ctx) {
		args[0], args[1], args[2] = s.describe(c, at, try.connection)
		visits, joining := try.connection.visits, time.Now() // later than try.sent, if it had to arrive first
		if s.guard > 0 || visits != nil {
			keys = append(keys[:2], at.run)
			args = append(args[:3], how, millis(s.guard), try.connection.run)
			args = visits.appendPace(args, at.slot, joining)
		}
		answer = joinScript.Run(ctx, try.conn, keys, args)
		if try.done(answer); try.err == nil {
			try.err = visits.joined(at.slot, joining, answer)
		}
	}
	if try.err != nil {
		return store.Status{}, try.err
	}
	standing, err := s.joined(answer, try.sent, c, at)
	if err != nil {
		return store.Status{}, err
	}
	return try.counted(standing)
}

// joinHow returns the argument of join.lua about how a claim joins; it is empty for most.
func joinHow(c *store.Claim) string {
	switch {
	case c.Try && c.AnyLimit:
		return "try any"
	case c.Try:
		return "try"
	case c.AnyLimit:
		return "any"
	}
	return ""
}

// joined returns the status of a claim from the response to its Join, Detach or Attach.
func (s *lines) joined(answer rediswire.Reply, sent time.Time, c *store.Claim, at *slotKeys) (store.Status, error) {
	if ticket, err := answer.Int64(); err == nil && ticket > 0 {
		standing := store.Status{State: store.Held, Ticket: uint64(ticket)} //nolint:gosec // it is positive
		standing.Until = s.frame.Drift.Until(standing.State, sent, c.TTL)
		return standing, nil
	}
	line := s.keys.line(c.Name)
	text, err := answer.Text()
	if err != nil {
		return store.Status{}, s.refused(err.Error(), line)
	}
	w := words{rest: text}
	if standing, ok := w.standing(); ok {
		standing.Until = s.frame.Drift.Until(standing.State, sent, c.TTL)
		return standing, nil
	}
	w = words{rest: text}
	switch w.next() {
	case "l":
		standing := store.Status{Ahead: int(w.number(32))}
		if holder, ok := w.place(c.Name); ok && holder.State == store.Held {
			standing.Holder = &holder
		}
		return standing, nil
	case "b":
		return store.Status{}, &store.Fault{Store: s.frame.Name, Err: fmt.Errorf(
			"it was started again or has lost its data, and nothing is granted for another %v (startup-delay)",
			w.millis(),
		)}
	case "mark":
		return store.Status{}, s.badMark(at, w.rest)
	case "mismatch":
		//nolint:gosec // of so many bits
		inUse := store.Demand{Kind: store.Kind(w.number(8)), Limit: int32(w.number(32))}
		if !w.bad {
			return store.Status{}, &store.MismatchError{InUse: inUse}
		}
	}
	return store.Status{}, s.refused(text, line)
}

// joinHeard subscribes to pushes for a claim that waits. If the store was not subscribed when the claim joined, the
// claim joins again: a push may have been missed.
func (s *lines) joinHeard(ctx context.Context, call *frame.Call, c *store.Claim, standing store.Status) (
	store.Status, error) {
	already, err := s.topology.hear(call.Context, s.topology.keysFor(s.keys.line(c.Name)))
	if err == nil && already {
		return standing, nil
	}
	ticket := standing.Ticket
	if err == nil {
		standing, err = s.join(call.Context, c)
	}
	if refused := call.Outcome(err); store.Final(refused) {
		return store.Status{}, s.withdraw(ctx, *c, ticket, refused)
	}
	return standing, err
}

// withdraw leaves a claim that has joined, although its Join returns the final error refused: after a final error
// nothing must be joined (rule 8 of package store). It returns refused. If the claim cannot leave, it returns an error
// that is not final, so that the caller leaves.
func (s *lines) withdraw(ctx context.Context, c store.Claim, ticket uint64, refused error) error {
	c.Ticket = ticket
	if err := s.Leave(ctx, c); err != nil && !s.frame.Closed() {
		//nolint:errorlint // these may be final
		why := fmt.Errorf("it has joined and cannot be withdrawn (%v): %v", err, refused)
		return &store.Fault{Store: s.frame.Name, Err: why}
	}
	return refused
}

// Keep implements store.Store. The claims are sent in batches, all at the same time. Each batch is one run of a script,
// and between two runs the server serves other clients. In a cluster all claims of a batch are in one slot.
func (s *lines) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	limit, err := s.frame.CheckAll(ctx, cs)
	if err != nil || len(cs) == 0 {
		return nil, err
	}
	call := s.frame.Call(ctx, limit)
	defer call.End()
	keys := make([]string, len(cs), len(cs)+2) // see keeping
	for i := range cs {
		keys[i] = s.keys.line(cs[i].Name)
	}
	var standings []store.Status
	if at := s.oneSlot(keys); at != nil {
		standings = s.keepHeard(call.Context, batch{at, keys, cs})
	} else {
		standings = s.keepSpread(call.Context, keys, cs)
	}
	failed := 0
	for i := range standings {
		if standings[i].Err != nil {
			failed++
			standings[i].Err = call.Outcome(standings[i].Err)
		}
	}
	if failed == len(standings) {
		return nil, standings[0].Err
	}
	return standings, nil
}

// keepSpread keeps claims of several slots, all slots at the same time.
func (s *lines) keepSpread(ctx context.Context, keys []string, cs []store.Claim) []store.Status {
	standings := make([]store.Status, len(cs))
	s.inSlots(keys, func(at *slotKeys, places []int) {
		for i, standing := range s.keepHeard(ctx, batch{at, pick(keys, places), pick(cs, places)}) {
			standings[places[i]] = standing
		}
	})
	return standings
}

// oneSlot returns the slot of all keys, or nil if they are in several slots.
func (s *lines) oneSlot(keys []string) *slotKeys {
	first := s.topology.keysFor(keys[0])
	for _, key := range keys[1:] {
		if s.topology.keysFor(key) != first {
			return nil
		}
	}
	return first
}

// inSlots calls do for each slot with the indices of its keys, for all slots at the same time.
func (s *lines) inSlots(keys []string, do func(at *slotKeys, places []int)) {
	slots := map[*slotKeys][]int{}
	for i, key := range keys {
		at := s.topology.keysFor(key)
		slots[at] = append(slots[at], i)
	}
	var all sync.WaitGroup
	for at, places := range slots {
		all.Go(func() { do(at, places) })
	}
	all.Wait()
}

// pick returns the elements at these indices.
func pick[T any](all []T, places []int) []T {
	some := make([]T, len(places))
	for i, place := range places {
		some[i] = all[place]
	}
	return some
}

// A batch has claims of one slot, and the keys of their queues.
type batch struct {
	at     *slotKeys
	keys   []string
	claims []store.Claim
}

// keepHeard keeps a batch, and subscribes to pushes if a claim of it waits. If the store was not subscribed before, it
// keeps the batch again: a push may have been missed.
func (s *lines) keepHeard(ctx context.Context, b batch) []store.Status {
	waits := func(k store.Status) bool { return k.Err == nil && k.State == store.Waiting }
	standings := s.keep(ctx, b, keepBatch)
	if !slices.ContainsFunc(standings, waits) {
		return standings
	}
	already, err := s.topology.hear(ctx, b.at)
	switch {
	case err != nil:
		for i := range standings {
			if waits(standings[i]) {
				standings[i] = store.Status{Err: err}
			}
		}
	case !already:
		standings = s.keep(ctx, b, keepBatch)
	}
	return standings
}

// keep runs keep.lua, with up to most claims in each run, and returns their statuses. A status has an Err if its claim
// could not be kept.
func (s *lines) keep(ctx context.Context, b batch, most int) []store.Status {
	parts := b.parts(most)
	var answers []rediswire.Reply
	try := s.try(b.at, true)
	for try.next(ctx) {
		runs := make([]execution, len(parts))
		for i, part := range parts {
			runs[i] = s.keeping(part, try.connection)
		}
		answers = keepScript.RunAll(ctx, try.conn, runs)
		try.done(answers...)
	}
	if _, refused := rediswire.IsRefusal(try.err); try.err != nil && (!refused || !try.answered) {
		return slices.Repeat([]store.Status{{Err: try.err}}, len(b.claims)) // it is so for all
	}
	standings := make([]store.Status, 0, len(b.claims))
	for i, part := range parts {
		if refusesOne(part.claims, answers[i].Error()) {
			standings = append(standings, s.keep(ctx, part, 1)...)
		} else {
			standings = s.appendKept(standings, part, answers[i], &try)
		}
	}
	return standings
}

// parts divides the batch into batches of up to most claims.
func (b batch) parts(most int) (parts []batch) {
	if len(b.claims) <= most {
		return []batch{b}
	}
	for i := 0; i < len(b.claims); i += most {
		end := min(i+most, len(b.claims))
		parts = append(parts, batch{b.at, b.keys[i:end:end], b.claims[i:end]})
	}
	return parts
}

// keeping returns one run of keep.lua for a batch. It may overwrite the array behind b.keys after its end.
func (s *lines) keeping(b batch, w *connection) execution {
	e := execution{
		Keys: append(b.keys, b.at.mark, b.at.run),
		Args: append(make([]string, 0, 3*len(b.claims)+2), w.run, millis(s.guard)),
	}
	for i := range b.claims {
		c := &b.claims[i]
		e.Args = append(e.Args, c.ID.String(), millis(c.TTL+c.Grace), s.said(c, b.at))
	}
	return e
}

// refusesOne reports whether the server refused a run because of one of its claims. Then each claim is kept alone, so
// that a foreign key under one name does not affect the other claims.
func refusesOne(cs []store.Claim, err error) bool {
	_, refused := rediswire.IsRefusal(err)
	return refused && len(cs) > 1 && !rediswire.Passes(err)
}

// appendKept appends the statuses of the claims of a batch from the response of keep.lua.
func (s *lines) appendKept(to []store.Status, b batch, answer rediswire.Reply, try *tries) []store.Status {
	texts, err := answer.Texts()
	switch {
	case err == nil && len(texts) == 1 && texts[0] != "ok":
		err = s.refused(texts[0], b.at.run)
	case err == nil && (len(texts) != len(b.claims)+1 || texts[0] != "ok"):
		err = rediswire.ErrShape
	}
	for i := range b.claims {
		if err != nil {
			to = append(to, store.Status{Err: err})
			continue
		}
		words := words{rest: texts[i+1]}
		standing, ok := words.standing()
		if !ok {
			to = append(to, store.Status{Err: s.refused(texts[i+1], b.keys[i])})
			continue
		}
		standing.Until = s.frame.Drift.Until(standing.State, try.sent, b.claims[i].TTL)
		standing, short := try.counted(standing)
		standing.Err = short
		to = append(to, standing)
	}
	return to
}

// Leave implements store.Store.
func (s *lines) Leave(ctx context.Context, c store.Claim) error {
	call, err := s.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return err
	}
	defer call.End()
	line := s.keys.line(c.Name)
	at := s.topology.keysFor(line)
	keys := append(make([]string, 0, 2), line)
	args := make([]string, 1, 4)
	bury := "0"
	if c.Ticket != 0 {
		args[0] = soloHead(&c)
	} else {
		args[0] = c.ID.String()
		bury = millis(c.TTL) // it may still come (rule 8 of package store)
		args = append(args, bury)
	}
	var answer rediswire.Reply
	try := s.try(at, false)
	for try.next(call.Context) {
		if s.guard > 0 {
			keys = append(keys[:1], at.run)
			args = append(args[:1], bury, millis(s.guard), try.connection.run)
		}
		answer = leaveScript.Run(call.Context, try.conn, keys, args)
		try.done(answer)
	}
	return call.Outcome(s.expectDone(try.err, answer, line))
}

// soloHead returns what the key of a queue of one claim begins with: "1 s TICKET ID".
func soloHead(c *store.Claim) string {
	var space [64]byte
	b := append(space[:0], "1 s "...)
	b = append(strconv.AppendUint(b, c.Ticket, 10), ' ')
	return string(hex.AppendEncode(b, c.ID[:]))
}

// Break implements store.Store.
func (s *lines) Break(ctx context.Context, name string, ticket uint64) error {
	call, err := s.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return err
	}
	defer call.End()
	if ticket > maxExact {
		return store.ErrNotHeld
	}
	line := s.keys.line(name)
	at := s.topology.keysFor(line)
	answer, try := s.runScript(call.Context, breakScript, at, false, func(w *connection) execution {
		args := []string{strconv.FormatUint(ticket, 10), w.run, millis(s.guard)}
		return execution{Keys: []string{line, at.run}, Args: args}
	})
	return call.Outcome(s.expectDone(try.err, answer, line))
}

// expectDone returns nil if the script reports that it is done, ErrNotHeld if it found no such claim, and otherwise the
// error of the call.
func (s *lines) expectDone(failed error, answer rediswire.Reply, line string) error {
	if failed != nil {
		return failed
	}
	if n, err := answer.Int64(); err == nil && n == 1 {
		return nil
	}
	text, err := answer.Text()
	switch {
	case err != nil:
		return s.refused(err.Error(), line)
	case text == "nobody":
		return store.ErrNotHeld
	}
	return s.refused(text, line)
}

// onMessage handles a push: lines of "h ID TICKET" for a claim that is held now, and "g ID TICKET" for one that is
// gone.
func (s *lines) onMessage(m rueidis.PubSubMessage) {
	for line := range strings.SplitSeq(m.Message, "\n") {
		w := words{rest: line}
		var state store.State
		switch w.next() {
		case "h":
			state = store.Held
		case "g":
			state = store.Gone
		default:
			continue // of a newer version, or of a stranger; Keep tells
		}
		id, ticket := w.id(), w.ticket()
		switch {
		case w.bad || id == store.Everyone || ticket >= maxExact:
		case state == store.Held && s.replicas > 0: // the Leave that granted it waited for no replica: Keep tells
			s.frame.Push(id, store.Status{State: store.Waiting, Ahead: -1})
		default:
			s.frame.Push(id, store.Status{State: state, Ticket: ticket, Ahead: -1})
		}
	}
}
