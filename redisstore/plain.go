package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/store"
)

// A Plain is a store in plain mode: it keeps each lock as other libraries do, in one key. It implements store.Store, but
// for what needs a line. The package's documentation says what holds.
//
// Redis knows nothing of those who wait. They are bids in this client, and try again: when somebody of Holdfast's gives
// the lock back, which is told on a channel, when its time is over, and now and then in case that another library did.
type Plain struct {
	base *Store // the connections, and what goes over them
	set  plainSettings

	mu   sync.Mutex
	bids map[store.ID]*bid
	ears ears
	seen uint64 // the highest ticket that this client was given

	owner atomic.Pointer[described] // the last that was written into a value
}

var _ store.Store = (*Plain)(nil)

// NewPlain is New for plain mode.
func NewPlain(ctx context.Context, client rueidis.Client, options ...Option) (*Plain, error) {
	return inPlainMode(New(ctx, client, slices.Concat(options, []Option{plainMode})...))
}

// ThroughPlain is Through for plain mode.
func ThroughPlain(ctx context.Context, path Path, options ...Option) (*Plain, error) {
	return inPlainMode(Through(ctx, path, slices.Concat(options, []Option{plainMode})...))
}

func inPlainMode(s *Store, err error) (*Plain, error) {
	if err != nil {
		return nil, err
	}
	return newPlain(s), nil
}

// newPlain makes a store in plain mode of one that is connected.
func newPlain(s *Store) *Plain {
	p := &Plain{base: s, set: *s.plain, bids: map[store.ID]*bid{}}
	p.ears.init()
	overhear := p.onFreed
	s.overhear.Store(&overhear)
	s.frame.Go(p.listen)
	return p
}

// Server says what the server said of itself when the store was opened.
func (p *Plain) Server() Server { return p.base.Server() }

// Notify implements store.Store.
func (p *Plain) Notify(fn func(store.ID, store.Standing)) { p.base.Notify(fn) }

// Close implements store.Store. Locks that were not given back are held until their ttl has passed.
func (p *Plain) Close() error { return p.base.Close() }

// Abilities implements store.Store.
func (p *Plain) Abilities() store.Abilities {
	a := p.base.Abilities()
	a.Identity = strings.TrimSuffix(p.base.identity, "/") + " plain/" + p.set.prefix // a line of that name is another lock
	a.Line, a.Shared, a.ExactWake = false, false, false
	a.Instead = "mode=line, which is the default, has them"
	return a
}

// Join implements store.Store: it tries once. A claim that does not get the lock becomes a bid.
func (p *Plain) Join(ctx context.Context, c store.Claim) (store.Standing, error) {
	if err := p.check(ctx, c.Name); err != nil {
		return store.Standing{}, err
	}
	switch {
	case !c.Exclusive():
		return store.Standing{}, fmt.Errorf("%w: plain mode has no shared locks; mode=line, which is the default, has them", store.ErrUnsupported)
	case c.Floor >= maxExact:
		return store.Standing{}, store.ErrFloor
	}
	b, before, err := p.bid(&c)
	if err != nil {
		return store.Standing{}, err
	}
	receipt := p.base.newReceipt()
	answer, sent, err := p.base.ask(ctx, c.TTL, p.base.shelf, receipt, func(ctx context.Context, w *wire) rueidis.RedisResult {
		e := p.trying(b, before, &c, w)
		return takeScript.Run(ctx, w, e.Keys, e.Args)
	})
	if err != nil {
		if store.Final(err) {
			p.forget(b)
		}
		return store.Standing{}, err
	}
	standing, err := p.tried(answer, sent, b, &c)
	if short := receipt.check(standing); short != nil {
		return store.Standing{}, p.base.frame.Fault(ctx, short)
	}
	return standing, err
}

// trying is one run of plain_take.lua.
func (p *Plain) trying(b *bid, before string, c *store.Claim, w *wire) execution {
	want, more := b.want()
	p.mu.Lock()
	floor := max(c.Floor, p.seen)
	p.mu.Unlock()
	return execution{
		Keys: []string{b.key, p.base.shelf.mark, b.tombstone()},
		Args: []string{want, more, p.valueRest(c.Owner, w), millis(c.TTL + c.Grace), strconv.FormatUint(floor, 10), before},
	}
}

// tried reads the answer to a try.
func (p *Plain) tried(answer rueidis.RedisResult, sent time.Time, b *bid, c *store.Claim) (store.Standing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ticket, err := answer.ToInt64(); err == nil && ticket > 0 {
		b.unsure--
		b.ticket = uint64(ticket) //nolint:gosec // it is positive
		p.seen = max(p.seen, b.ticket)
		p.settled(b)
		return p.held(b, sent, c.TTL), nil
	}
	if word, err := answer.ToString(); err == nil {
		b.unsure--
		p.drop(b)
		switch word {
		case "g":
			return store.Standing{}, nil
		case "floor":
			return store.Standing{}, store.ErrFloor
		}
		if mark, bad := strings.CutPrefix(word, "mark "); bad {
			return store.Standing{}, p.base.badMark(p.base.shelf, mark)
		}
		return store.Standing{}, p.strange(word)
	}
	holder, err := p.readHolder(answer, c.Name)
	if err != nil || holder == nil {
		return store.Standing{}, p.strange(fmt.Sprint(holder, err))
	}
	b.unsure--
	if c.Try {
		p.drop(b)
		return store.Standing{Ahead: 1, Holder: holder}, nil
	}
	p.waits(b)
	until := p.base.frame.Drift.Until(store.Waiting, sent, c.TTL)
	return store.Standing{State: store.Waiting, Ahead: -1, Until: until, AskAgain: p.again(holder)}, nil
}

// held is the standing of a bid that has the lock.
func (p *Plain) held(b *bid, sent time.Time, ttl time.Duration) store.Standing {
	return store.Standing{State: store.Held, Ticket: b.ticket, Until: p.base.frame.Drift.Until(store.Held, sent, ttl)}
}

// ownPatience is how much longer than for another library's release to wait for one of Holdfast's, which is told.
const ownPatience = 10

// again is when to look whether the holder has gone.
func (p *Plain) again(holder *store.Place) time.Time {
	pause := p.set.retry/2 + rand.N(p.set.retry)
	if holder.Ticket != 0 {
		pause *= ownPatience
	}
	if holder.Left > 0 {
		pause = min(pause, holder.Left+askAfter)
	}
	return time.Now().Add(pause)
}

// Leave implements store.Store. A bid that has never had the lock, and whose tries were all answered, is known to nobody
// but this client.
func (p *Plain) Leave(ctx context.Context, c store.Claim) error {
	if err := p.check(ctx, c.Name); err != nil {
		return err
	}
	b, bury, ask := p.leaving(&c)
	if !ask {
		return nil
	}
	want, more := b.want()
	keys, args := []string{b.key}, []string{want, more, p.channel(b.key), millis(c.TTL)}
	if bury {
		keys = append(keys, b.tombstone())
	}
	answer, _, err := p.base.ask(ctx, c.TTL, p.base.shelf, nil, func(ctx context.Context, w *wire) rueidis.RedisResult {
		return leavePlainScript.Run(ctx, w, keys, args)
	})
	if err != nil {
		// It will be repeated, but not for longer than this.
		time.AfterFunc(c.TTL+c.Grace, func() { p.forget(b) })
		return err
	}
	p.forget(b)
	if n, err := answer.ToInt64(); err != nil || n != 1 {
		return p.strange(fmt.Sprint(n, err))
	}
	return nil
}

// check refuses a call that must not be made.
func (p *Plain) check(ctx context.Context, name string) error {
	if err := p.checkName(name); err != nil {
		return err
	}
	return p.base.frame.Alive(ctx)
}

// checkName refuses what is no name, and what is one of our own keys.
func (p *Plain) checkName(name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	if strings.HasPrefix(p.key(name), keyRoot) {
		return fmt.Errorf("%w: in plain mode a name is a key, and what begins with %q is holdfast's own", store.ErrBadName, keyRoot)
	}
	return nil
}

// key is where the lock of a name is.
func (p *Plain) key(name string) string { return p.set.prefix + name }

// strange is the fault of an answer that is none.
func (p *Plain) strange(said string) error {
	return &store.Fault{Store: p.base.frame.Name, Err: fmt.Errorf("%w: %.100q", errShape, said)}
}
