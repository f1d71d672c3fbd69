package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// lookWithin bounds the look at who is in the way, when a Lock ran into its deadline.
const lookWithin = 250 * time.Millisecond

// A lock is what all primitives are made of: a name in a client's store, and its settings.
type lock struct {
	client   *Client
	name     string
	settings *settings
	err      error // why it cannot be used
}

func (c *Client) lock(name string, options []Option) lock {
	l := lock{client: c, name: name, settings: c.settings.with(options, &c.abilities)}
	if l.err = l.settings.err; l.err == nil {
		l.err = store.CheckName(name)
	}
	return l
}

// usable says whether a call can be made at all.
func (k *lock) usable(ctx context.Context) error {
	switch {
	case k.err != nil:
		return k.err
	case ctx == nil:
		return ErrNilContext
	case k.client.isClosed():
		return ErrClosed
	}
	return nil
}

// A want is one wish for a lock.
type want struct {
	op    string
	ask   store.Ask
	try   bool // do not wait
	bound bool // the caller's context bounds the lease too
}

// acquire takes the lock, waiting for it if it must.
func (k *lock) acquire(ctx context.Context, w want) (*Lease, error) {
	l, err := k.tryAcquire(ctx, w)
	if err != nil {
		return nil, k.client.failed(w.op, k.name, err)
	}
	return l, nil
}

func (k *lock) tryAcquire(ctx context.Context, w want) (*Lease, error) {
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	if !w.ask.Exclusive() && !k.client.abilities.Shared {
		return nil, fmt.Errorf("%w: it has no shared locks", ErrUnsupported)
	}
	patience := ctx
	if k.settings.wait > 0 && !w.try {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(ctx, k.settings.wait)
		defer cancel()
	}
	for fails := int32(1); ; fails++ {
		if patience.Err() != nil {
			return nil, done(patience)
		}
		l, err := k.enter(ctx, patience, w)
		if !errors.Is(err, errPlaceLost) {
			return l, err
		}
		// The place in the line was lost: the store lost its data, or an operator broke the claim. Nothing was
		// held yet, so nothing is lost but the place.
		k.client.pause(patience, backoff(time.Second, fails))
	}
}

// errPlaceLost says that a claim that waited is gone, and another has to be made.
var errPlaceLost = errors.New("the place in the line was lost")

// enter makes a claim, joins the line with it, and waits in it.
func (k *lock) enter(ctx, patience context.Context, w want) (*Lease, error) {
	c, s := k.client, k.settings
	cl := &claim{pos: off, fixed: s.fixed, Claim: store.Claim{
		ID: c.nextID(), Name: k.name, Ask: w.ask, TTL: s.ttl, Grace: s.grace, Try: w.try,
		Floor: c.floor.Load(), Owner: s.owner,
	}}
	if err := c.enrol(cl); err != nil {
		return nil, err
	}
	standing, err := c.store.Join(patience, cl.Claim)
	l, err := c.joined(ctx, cl, w, standing, err)
	c.calls.Done()
	if l != nil || err != nil {
		return l, err
	}
	return c.await(ctx, patience, cl, w)
}

// joined takes the store's answer to a Join. Neither a lease nor an error means: wait.
func (c *Client) joined(ctx context.Context, cl *claim, w want, s store.Standing, err error) (*Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	closed := c.isClosed()
	if err != nil {
		switch {
		case store.Final(err):
			c.drop(cl)
		case closed:
			c.drop(cl)
			c.leaveLate(cl.Claim)
		default:
			c.withdraw(cl) // it may still land (rule 8 of package store)
		}
		return nil, err
	}
	c.see(s.Ticket)
	cl.Ticket = s.Ticket
	switch {
	case s.State == store.Gone && w.try:
		c.drop(cl)
		return nil, lockedBy(cl.Name, s.Holder, s.Ahead, nil)
	case s.State == store.Gone:
		c.drop(cl)
		return nil, errPlaceLost
	case closed:
		c.drop(cl)
		c.leaveLate(cl.Claim)
		return nil, ErrClosed
	}
	now := time.Now()
	c.setUntil(cl, s.Until)
	if s.State == store.Waiting {
		cl.phase = waiting
		cl.news = make(chan struct{}, 1)
		c.later(cl, s, now)
		return nil, nil
	}
	c.hold(cl)
	if cl.until.passed(c.start, now) {
		c.withdraw(cl)
		return nil, fmt.Errorf("%w: it was granted, but the answer took longer than the ttl of %v", ErrLost, cl.TTL)
	}
	c.later(cl, s, now)
	return c.lease(ctx, &cl.first, cl, w.bound), nil
}

// leaveLate takes out a claim whose Join was under way when the client was closed. Close waits for it.
func (c *Client) leaveLate(cl store.Claim) {
	c.calls.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := c.store.Leave(ctx, cl); err != nil {
			c.logger.Warn("holdfast: not given back; it runs out", "name", cl.Name, "ttl", cl.TTL, "err", err)
		}
	})
}

// await waits until cl is held. When it gives up, the claim is on its way out of the line.
func (c *Client) await(ctx, patience context.Context, cl *claim, w want) (*Lease, error) {
	for {
		select {
		case <-cl.news:
			if l, err := c.granted(ctx, cl, w); l != nil || err != nil {
				return l, err
			}
		case <-patience.Done():
			return nil, c.gaveUp(patience, cl)
		case <-c.closed.Done():
			return nil, ErrClosed // Close takes it out of the line
		}
	}
}

// granted makes the lease of a claim that waited, if it is held now.
func (c *Client) granted(ctx context.Context, cl *claim, w want) (*Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.isClosed():
		return nil, ErrClosed
	case cl.phase == held:
		return c.lease(ctx, &cl.first, cl, w.bound), nil
	case cl.phase == waiting:
		return nil, nil
	case cl.err != nil:
		return nil, cl.err
	}
	return nil, errPlaceLost
}

// gaveUp withdraws cl and says why nothing was held.
func (c *Client) gaveUp(patience context.Context, cl *claim) error {
	c.mu.Lock()
	fault := cl.err
	if !c.isClosed() && (cl.phase == waiting || cl.phase == held) {
		c.withdraw(cl)
	}
	c.mu.Unlock()
	why := done(patience)
	if fault != nil { // the store is ill: that is not contention
		return fmt.Errorf("%w: %w", why, fault)
	}
	if !errors.Is(why, context.DeadlineExceeded) {
		return why
	}
	return c.lookWhoHolds(cl, why)
}

// lookWhoHolds asks the store who is ahead of cl. What it cannot find out stays unsaid.
func (c *Client) lookWhoHolds(cl *claim, why error) error {
	ctx, cancel := context.WithTimeout(c.closed, lookWithin)
	defer cancel()
	line, err := c.store.Line(ctx, cl.Name)
	if err != nil {
		return lockedBy(cl.Name, nil, -1, why)
	}
	var holder *store.Place
	ahead := 0
	for i := range line.Places {
		p := &line.Places[i]
		if p.ID == cl.ID || p.Ticket > cl.Ticket {
			continue
		}
		if ahead++; holder == nil && p.State == store.Held {
			holder = p
		}
	}
	return lockedBy(cl.Name, holder, ahead, why)
}

// pause waits, but not beyond what ctx allows nor beyond Close.
func (c *Client) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.closed.Done():
	}
}
