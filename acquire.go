package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/agenda"
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

// A wish is one call that wants a lock, until it has it or gives up.
type wish struct {
	lock  *lock
	ctx   context.Context // whose values the lease has
	outer *Lease          // the innermost lease that ctx comes from
	op    string
	ask   store.Ask
	try   bool // do not wait
	bound bool // ctx bounds the lease too
	alone bool // never handed over inside the process, nor received so

	patience context.Context // what bounds the wait; nil: ctx and the option Wait
	outage   *outage         // of its own Joins; nil: the last one did not fail

	// What it is given, and its place in the process's own queue. Guarded by the client's mu.
	owner      *owner
	relay      *relay
	lease      *Lease
	err        error
	news       chan struct{} // closed when lease or err is set
	prev, next *wish
	queued     bool
}

// acquire takes the lock, waiting for it if it must.
func (k *lock) acquire(ctx context.Context, w *wish) (*Lease, error) {
	l, err := k.obtain(ctx, w)
	if err != nil {
		return nil, k.client.failed(w.op, k.name, err)
	}
	return l, nil
}

func (k *lock) obtain(ctx context.Context, w *wish) (*Lease, error) {
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	if !w.ask.Exclusive() && !k.client.abilities.Shared {
		return nil, k.client.unshared()
	}
	w.lock, w.ctx, w.outer = k, ctx, leaseFrom(ctx)
	if w.outer != nil {
		if l, err := w.reenter(); l != nil || err != nil {
			return l, err
		}
	}
	if o := k.client.settings.observer; o != nil {
		return w.observed(o)
	}
	return w.fulfil()
}

// fulfil gets the lock, however often a Join fails or its place in the line is lost meanwhile.
func (w *wish) fulfil() (*Lease, error) {
	patience := w.patience
	if patience == nil {
		patience = w.ctx
	}
	if s := w.lock.settings; s.wait > 0 && !w.try && w.patience == nil {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(w.ctx, s.wait)
		defer cancel()
	}
	for fails := int32(1); ; fails++ {
		if patience.Err() != nil {
			return nil, w.outage.explain(done(patience))
		}
		l, err := w.enter(patience)
		if !errors.Is(err, errPlaceLost) {
			return l, err
		}
		// The place in the line was lost: the Join failed, the store lost its data, or an operator broke the claim.
		// Nothing was held yet, so nothing is lost but the place.
		w.lock.client.pause(patience, max(backoff(time.Second, fails), w.outage.pause(w.lock.settings.ttl)))
	}
}

// errPlaceLost says that a claim that waited is gone, or could not join, and another has to be made.
var errPlaceLost = errors.New("the place in the line was lost")

// enter joins the line, by itself or behind others of this process, and waits in it.
func (w *wish) enter(patience context.Context) (*Lease, error) {
	c := w.lock.client
	c.mu.Lock()
	if c.isClosed() {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	c.own(w)
	queued, err := w.stand(patience)
	if err == nil {
		w.outage = nil
	} else if !w.try && c.tryAgain(&w.outage, w.lock.name, err) {
		err = errPlaceLost
	}
	var search *search
	if queued != nil {
		search = c.newSearch(queued)
	}
	c.mu.Unlock()
	l := w.lease
	if queued != nil {
		l, err = queued.await(patience, search)
	}
	if w.owner != nil {
		c.mu.Lock()
		search.end()
		c.disownWish(w)
		c.mu.Unlock()
	}
	return l, err
}

// stand puts w in its place: it has its lease then, or an error, or stands in a queue. It is called with mu held, which
// it gives up while it joins.
func (w *wish) stand(patience context.Context) (queued *wish, err error) {
	c := w.lock.client
	r := c.relays[w.lock.name]
	public := w.sharesRelay()
	if public && r.suits(w.lock.settings) {
		queued = w.queueIn(r, false)
		c.staff(r)
		return queued, nil
	}
	cl := c.newClaim(w)
	if public && r.free() {
		c.publish(w, cl, r)
	} else {
		cl.relay = &relay{lock: w.lock, claim: cl}
		c.assign(cl, w.owner)
	}
	c.calls.Add(1)
	c.mu.Unlock()
	standing, err := c.store.Join(patience, cl.Claim)
	if err != nil && errors.Is(err, patience.Err()) {
		err = w.outage.explain(done(patience)) // with its cause
	}
	c.mu.Lock()
	err = c.joined(cl, standing, err)
	c.calls.Done()
	r = cl.relay
	switch {
	case err != nil && r.public && c.tryAgain(&r.outage, cl.Name, err):
		queued = w.queueIn(r, true)
		c.staff(r) // it sends another claim, for all who wait here
		return queued, nil
	case err != nil:
		c.staff(r) // others may have queued meanwhile: this error is not theirs
		return nil, err
	case cl.phase == held:
		c.handTo(cl, w, &cl.first)
		if r.queue.first != nil {
			c.staff(r)
		}
		return nil, nil
	}
	return w.queueIn(r, true), nil
}

// newClaim makes a claim for w and registers it, so that pushes for it find it.
func (c *Client) newClaim(w *wish) *claim {
	s := w.lock.settings
	cl := &claim{pos: agenda.Off, Claim: store.Claim{
		ID: c.nextID(), Name: w.lock.name, Ask: w.ask, TTL: s.ttl, Grace: s.grace, Try: w.try,
		Floor: c.floor, Owner: w.shown(),
	}}
	c.claims[cl.ID] = cl
	return cl
}

// joined takes the store's answer to a Join. Without an error the claim is held, or waits.
func (c *Client) joined(cl *claim, s store.Standing, err error) error {
	closed := c.isClosed()
	if err == nil || store.Final(err) {
		c.heard++
	}
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
		return err
	}
	c.see(s.Ticket)
	cl.Ticket = s.Ticket
	cl.failed.Store(nil)
	switch {
	case s.State == store.Gone && cl.Try:
		c.drop(cl)
		return lockedBy(cl.Name, s.Holder, s.Ahead, nil)
	case s.State == store.Gone:
		c.drop(cl)
		return errPlaceLost
	case closed:
		c.drop(cl)
		c.leaveLate(cl.Claim)
		return ErrClosed
	}
	now := time.Now()
	c.setUntil(cl, s.Until)
	if s.State == store.Waiting {
		cl.phase = waiting
		c.later(cl, s, now)
		return nil
	}
	c.hold(cl, now)
	if cl.until.passed(c.start, now) {
		c.withdraw(cl)
		return fmt.Errorf("%w of %v", errLateGrant, cl.TTL)
	}
	c.later(cl, s, now)
	return nil
}

// leaveLate takes out a claim whose Join was under way when the client was closed. Close waits for it.
func (c *Client) leaveLate(cl store.Claim) {
	c.calls.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := c.store.Leave(ctx, cl); err != nil {
			c.warn("holdfast: not given back; it runs out", "name", cl.Name, "ttl", cl.TTL, "err", err)
		}
	})
}

// await waits until w is given what it wants, or gives up.
func (w *wish) await(patience context.Context, search *search) (*Lease, error) {
	if search == nil && patience.Done() == nil {
		<-w.news // nothing else can happen
		return w.result()
	}
	select {
	case <-w.news:
		return w.result()
	case <-patience.Done():
		return nil, w.giveUp(patience)
	case err := <-search.result():
		_, _ = w.leave() // what it waited with does not matter any more
		if o := w.lock.client.settings.observer; o != nil {
			o.Deadlocked(w.request(), err)
		}
		return nil, err
	}
}

// result is what w was given.
func (w *wish) result() (*Lease, error) {
	switch {
	case w.lease == nil:
		return nil, w.err
	case w.lease.Err() != nil:
		return nil, errPlaceLost // it was over before it could be used
	}
	return w.lease, nil
}

// giveUp leaves, and says why nothing was got.
func (w *wish) giveUp(patience context.Context) error {
	stood, fault := w.leave()
	why := done(patience)
	if fault != nil { // the store is ill: that is not contention
		return errors.Join(why, fault)
	}
	if !errors.Is(why, context.DeadlineExceeded) {
		return why
	}
	return w.lock.client.lookWhoHolds(w.lock.name, stood, why)
}

// leave takes w out of the process's queue, and gives back what it was given at the last moment. It returns the
// claim that it waited with, and the store's last failure to answer about it.
func (w *wish) leave() (stood store.Claim, fault error) {
	c := w.lock.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return stood, nil
	}
	r := w.relay
	if w.lease != nil {
		cl := w.lease.claim
		if w.lease.end(&errUnlocked) && cl.phase == held {
			if next := c.passOn(cl, time.Now()); next != nil {
				next.tell()
			} else {
				c.withdraw(cl)
				c.staff(r)
			}
		}
		return cl.Claim, nil
	}
	if !w.queued {
		return stood, w.err
	}
	for _, cl := range []*claim{r.claim, r.standby} {
		if cl != nil {
			stood, fault = cl.Claim, cl.fault()
		}
	}
	r.queue.remove(w)
	c.staff(r)
	return stood, fault
}

// lookWhoHolds asks the store who is ahead of a claim, or who is there at all if it has no ticket yet.
func (c *Client) lookWhoHolds(name string, stood store.Claim, why error) error {
	ctx, cancel := context.WithTimeout(c.closed, lookWithin)
	defer cancel()
	line, err := c.store.Line(ctx, name)
	if err != nil {
		return errors.Join(why, c.silence(ctx, lookWithin, err)) // that is not contention
	}
	var holder *store.Place
	ahead := 0
	for i := range line.Places {
		p := &line.Places[i]
		if p.ID == stood.ID || stood.Ticket != 0 && p.Ticket > stood.Ticket {
			continue
		}
		if ahead++; holder == nil && p.State == store.Held {
			holder = p
		}
	}
	return lockedBy(name, holder, ahead, why)
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
