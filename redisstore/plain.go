package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
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

// The scripts of plain mode.
var (
	takeScript       = newScript("plain.lua", "plain_take.lua")
	keepPlainScript  = newScript("plain.lua", "plain_keep.lua")
	leavePlainScript = newScript("plain.lua", "plain_leave.lua")
	breakPlainScript = newScript("plain.lua", "plain_break.lua")
	lookScript       = newScript("plain.lua", "plain_look.lua")
)

// plainMode is the mode that keeps each lock in one key, as other libraries do. It implements store.Store, except for
// what needs a queue. The package documentation describes its guarantees.
//
// Redis knows nothing of claims that wait. They are known to this client only, and try again: when another client of
// Holdfast releases the lock, which is published on a channel, when the holder's time is over, and now and then in case
// another library has released it.
type plainMode struct {
	*base // the connections and their settings
	set   plainSettings
	at    *slotKeys

	mu   sync.Mutex
	bids map[store.ID]*plainClaim
	seen uint64 // the highest ticket that was granted to this client

	subscriptions *rediskey.Subscriptions // to the releases that claims wait for
	owners        rediskey.Owners
}

// newPlain returns plain mode.
func newPlain(b *base) *plainMode {
	p := &plainMode{base: b, set: *b.plain, at: b.keys.only(b.channel), bids: map[store.ID]*plainClaim{}}
	p.subscriptions = rediskey.NewSubscriptions(1, p.channel(""))
	b.receive = func(m rueidis.PubSubMessage) { p.subscriptions.Message(0, m.Channel) }
	b.work = append(b.work, p.listen)
	return p
}

// Abilities implements store.Store.
func (p *plainMode) Abilities() store.Abilities {
	a := p.base.Abilities()
	a.Identity = strings.TrimSuffix(p.identity, "/") + " plain/" + p.set.prefix // a queue of that name is another lock
	a.Queue, a.Shared = false, false
	a.Detach = p.set.value == nil
	a.Alternative = "mode=queue, the default, has them"
	return a
}

// Join implements store.Store: it tries once. A claim that does not acquire the lock waits in this client.
func (p *plainMode) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	call, err := p.begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	switch {
	case !c.Exclusive():
		return store.Status{}, fmt.Errorf(
			"%w: plain mode has no shared locks; mode=queue, which is the default, has them", store.ErrUnsupported)
	case c.Floor >= maxExact:
		return store.Status{}, store.ErrFloor
	}
	b, before, err := p.localClaim(&c)
	if err != nil {
		return store.Status{}, err
	}
	answer, try := p.runScript(call.Context, takeScript, p.at, true, func(w *connection) execution {
		return p.trying(b, before, &c, w)
	})
	if err := call.Outcome(try.err); err != nil {
		if store.Final(err) {
			p.forget(b)
		}
		return store.Status{}, err
	}
	standing, err := p.tried(answer, try.sent, b, &c)
	if err == nil {
		standing, err = try.counted(standing)
	}
	return standing, call.Outcome(err)
}

// trying is one run of plain_take.lua.
func (p *plainMode) trying(b *plainClaim, before string, c *store.Claim, w *connection) execution {
	want, more := b.want()
	p.mu.Lock()
	floor := max(c.Floor, p.seen)
	p.mu.Unlock()
	return execution{
		Keys: []string{b.key, p.at.mark, b.tombstone()},
		Args: []string{
			want, more, p.valueRest(c.Owner, w), millis(c.TTL + c.Grace), strconv.FormatUint(floor, 10), before,
		},
	}
}

// tried parses the response to a try.
func (p *plainMode) tried(answer rediswire.Reply, sent time.Time, b *plainClaim, c *store.Claim) (store.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ticket, err := answer.Int64(); err == nil && ticket > 0 {
		b.unanswered--
		b.ticket = uint64(ticket) //nolint:gosec // it is positive
		p.seen = max(p.seen, b.ticket)
		p.settled(b)
		return p.held(b, sent, c.TTL), nil
	}
	if word, err := answer.Text(); err == nil {
		b.unanswered--
		p.drop(b)
		switch word {
		case "g":
			return store.Status{}, nil
		case "floor":
			return store.Status{}, store.ErrFloor
		}
		if mark, bad := strings.CutPrefix(word, "mark "); bad {
			return store.Status{}, p.badMark(p.at, mark)
		}
		return store.Status{}, p.strange(word)
	}
	holder, err := p.readHolder(answer, c.Name)
	if err != nil || holder == nil {
		return store.Status{}, p.strange(fmt.Sprint(holder, err))
	}
	b.unanswered--
	if c.Try {
		p.drop(b)
		return store.Status{Ahead: 1, Holder: holder}, nil
	}
	p.waits(b)
	until := p.frame.Drift.Until(store.Waiting, sent, c.TTL)
	return store.Status{State: store.Waiting, Ahead: -1, Until: until, RecheckAt: p.again(holder)}, nil
}

// held returns the status of a claim that is held.
func (p *plainMode) held(b *plainClaim, sent time.Time, ttl time.Duration) store.Status {
	return store.Status{State: store.Held, Ticket: b.ticket, Until: p.frame.Drift.Until(store.Held, sent, ttl)}
}

// ownRetryFactor is how many times longer a waiter pauses while the holder is one of Holdfast's, whose release is
// published.
const ownRetryFactor = 10

// again returns when to check whether the holder has released the lock.
func (p *plainMode) again(holder *store.Entry) time.Time {
	pause := p.set.retry/2 + rand.N(p.set.retry)
	if holder.Ticket != 0 {
		pause *= ownRetryFactor
	}
	if holder.Left > 0 {
		pause = min(pause, holder.Left+askAfter)
	}
	return time.Now().Add(pause)
}

// Keep implements store.Store. It extends claims that are held, if their keys are still there, and tries again for
// claims that wait. A claim that was held and has no key any more is gone: it never tries again.
func (p *plainMode) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	for i := range cs {
		if err := p.checkName(cs[i].Name); err != nil {
			return nil, err
		}
	}
	limit, err := p.frame.CheckAll(ctx, cs)
	if err != nil || len(cs) == 0 {
		return nil, err
	}
	call := p.frame.Call(ctx, limit)
	defer call.End()
	try := p.try(p.at, true)
	if !try.next(call.Context) {
		return nil, call.Outcome(try.err)
	}
	r := renewal{p, call.Context, &try, cs, make([]store.Status, len(cs))}
	held, waiting := p.sort(cs)
	r.prolong(held)
	r.tryAgain(waiting)
	for i := range r.standings {
		standing, short := try.counted(r.standings[i])
		standing.Err = cmp.Or(standing.Err, short)
		if standing.Err != nil {
			standing.Err = call.Outcome(standing.Err)
		}
		r.standings[i] = standing
	}
	err = r.standings[0].Err
	if store.Final(err) || slices.ContainsFunc(r.standings, func(k store.Status) bool { return k.Err == nil }) {
		return r.standings, nil
	}
	return nil, err
}

// A renewed claim is a claim of a Keep, with its index there.
type renewed struct {
	i      int
	bid    *plainClaim
	before string // of a try
}

// sort separates claims that wait from claims that are held, or believe so, and starts a try of each that waits.
func (p *plainMode) sort(cs []store.Claim) (held, waiting []renewed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range cs {
		b := p.find(&cs[i])
		switch {
		case b == nil:
			held = append(held, renewed{i, &plainClaim{id: cs[i].ID, key: p.key(cs[i].Name), ticket: cs[i].Ticket}, ""})
		case b.waiting:
			waiting = append(waiting, renewed{i, b, b.begin()})
		default:
			held = append(held, renewed{i, b, ""})
		}
	}
	return held, waiting
}

// A renewal is one Keep.
type renewal struct {
	*plainMode
	ctx       context.Context
	try       *tries
	claims    []store.Claim
	standings []store.Status
}

// prolong extends claims that are held, in batches: between them the server serves other clients.
func (r *renewal) prolong(held []renewed) {
	var all []execution
	for chunk := range slices.Chunk(held, keepBatch) {
		var e execution
		for _, k := range chunk {
			want, more := k.bid.want()
			c := &r.claims[k.i]
			e.Keys = append(e.Keys, k.bid.key)
			e.Args = append(e.Args, want, more, millis(c.TTL+c.Grace))
		}
		all = append(all, e)
	}
	if len(all) == 0 {
		return
	}
	sent := time.Now()
	answers := keepPlainScript.RunAll(r.ctx, r.try.conn, all)
	for chunk := range slices.Chunk(held, keepBatch) {
		r.prolonged(chunk, answers[0], sent)
		answers = answers[1:]
	}
}

// prolonged parses the response for a batch of claims that are held.
func (r *renewal) prolonged(chunk []renewed, answer rediswire.Reply, sent time.Time) {
	still, err := answer.Numbers()
	if err == nil && len(still) != len(chunk) {
		err = rediswire.ErrShape
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, k := range chunk {
		switch {
		case err != nil:
			r.standings[k.i].Err = err
		case k.bid.ticket == 0: // its Join had no response: whatever its result, the claim holds nothing
		case still[n] == 1:
			r.standings[k.i] = r.held(k.bid, sent, r.claims[k.i].TTL)
		default:
			r.drop(k.bid) // and its status is Gone
		}
	}
}

// tryAgain runs the tries of claims that wait.
func (r *renewal) tryAgain(waiting []renewed) {
	if len(waiting) == 0 {
		return
	}
	all := make([]execution, len(waiting))
	for n, k := range waiting {
		all[n] = r.trying(k.bid, k.before, &r.claims[k.i], r.try.connection)
	}
	sent := time.Now()
	for n, answer := range takeScript.RunAll(r.ctx, r.try.conn, all) {
		k := waiting[n]
		err := answer.Error()
		if err == nil {
			r.standings[k.i], err = r.tried(answer, sent, k.bid, &r.claims[k.i])
		}
		if err != nil {
			r.standings[k.i] = store.Status{Err: err}
		}
	}
}

// Leave implements store.Store. A claim that was never held, and whose tries all had a response, is known to this
// client only.
func (p *plainMode) Leave(ctx context.Context, c store.Claim) error {
	call, err := p.begin(ctx, c.Name, c.TTL)
	if err != nil {
		return err
	}
	defer call.End()
	b, bury, ask := p.leaving(&c)
	if !ask {
		return nil
	}
	want, more := b.want()
	keys, args := []string{b.key}, []string{want, more, p.channel(b.key), millis(c.TTL)}
	if bury {
		keys = append(keys, b.tombstone())
	}
	answer, err := p.run(call.Context, leavePlainScript, keys, args)
	if err != nil {
		// The caller repeats it, but not for longer than this.
		time.AfterFunc(c.TTL+c.Grace, func() { p.forget(b) })
		return call.Outcome(err)
	}
	p.forget(b)
	if n, err := answer.Int64(); err != nil || n != 1 {
		return p.strange(fmt.Sprint(n, err))
	}
	return nil
}

// Queue implements store.Store. It shows the holder alone: Redis knows nothing of waiters. Of a holder of another
// library it shows the value that it set.
func (p *plainMode) Queue(ctx context.Context, name string) (store.Queue, error) {
	line := store.Queue{Name: name}
	call, err := p.begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return line, err
	}
	defer call.End()
	answer, err := p.run(call.Context, lookScript, []string{p.key(name)}, nil)
	if err != nil {
		return line, call.Outcome(err)
	}
	switch holder, err := p.readHolder(answer, name); {
	case err != nil:
		return line, p.strange(err.Error())
	case holder != nil:
		line.Entries = []store.Entry{*holder}
	}
	return line, nil
}

// Break implements store.Store, for a holder whose value has its ticket.
func (p *plainMode) Break(ctx context.Context, name string, ticket uint64) error {
	call, err := p.begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return err
	}
	defer call.End()
	key := p.key(name)
	args := []string{strconv.FormatUint(ticket, 10), p.channel(key)}
	answer, err := p.run(call.Context, breakPlainScript, []string{key}, args)
	if err != nil {
		return call.Outcome(err)
	}
	if n, err := answer.Int64(); err == nil && n == 1 {
		return nil
	}
	word, err := answer.Text()
	switch word {
	case "nobody":
		return store.ErrNotHeld
	case "stranger":
		return fmt.Errorf("%w: the holder's value is not Holdfast's own and has no ticket; to break it, "+
			"delete the key %s by hand", store.ErrUnsupported, store.Quote(key))
	default:
		return p.strange(fmt.Sprint(word, err))
	}
}

// Names returns ErrUnsupported: the key of a lock cannot be told from other keys.
func (p *plainMode) Names(context.Context, string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		yield("", fmt.Errorf("%w: in plain mode locks cannot be told from other keys; "+
			"mode=queue, the default, can list them", store.ErrUnsupported))
	}
}

// run runs a script that grants nothing.
func (p *plainMode) run(ctx context.Context, script *script, keys, args []string) (rediswire.Reply, error) {
	e := execution{Keys: keys, Args: args}
	answer, try := p.runScript(ctx, script, p.at, false, func(*connection) execution { return e })
	return answer, try.err
}

// begin checks an operation and starts it.
func (p *plainMode) begin(ctx context.Context, name string, limit time.Duration) (frame.Call, error) {
	if err := p.checkName(name); err != nil {
		return frame.Call{}, err
	}
	return p.frame.Begin(ctx, name, limit)
}

// checkName returns an error for an invalid name, and for a name that would be one of Holdfast's own keys.
func (p *plainMode) checkName(name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	return rediskey.Check("plain mode", p.key(name))
}

// key returns the key of the lock with a name.
func (p *plainMode) key(name string) string { return p.set.prefix + name }
