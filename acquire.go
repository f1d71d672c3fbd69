package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// inspectTimeout bounds the read of the queue after a Lock has reached its deadline, to report the holder.
const inspectTimeout = 250 * time.Millisecond

// errClaimLost means that a waiting claim is gone, or could not join, and that a new one has to be made.
var errClaimLost = errors.New("the waiting claim was lost")

// A lock is what all primitives consist of: a name in a client's store, and its settings.
type lock struct {
	client   *Client
	name     string
	settings *settings
	err      error // why it cannot be used; nil if it can
}

// lock returns the lock of a name. Its err is that of a wrong option or name.
func (c *Client) lock(name string, options []Option) lock {
	l := lock{client: c, name: name, settings: c.settings.with(options, &c.abilities)}
	if l.err = l.settings.err; l.err == nil {
		l.err = store.CheckName(name)
	}
	return l
}

// usable returns an error if no call can be made.
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

// A request is one call that wants a lock, until it acquires it or gives up.
type request struct {
	lock    *lock
	ctx     context.Context // the lease has its values
	outer   *Lease          // the innermost lease that ctx comes from
	op      string
	demand  store.Demand
	try     bool // do not wait
	bound   bool // ctx bounds the lease too
	alone   bool // neither hands the claim over inside the process, nor receives one so
	grouped bool // one of several locks of LockAll

	detached *Detached // to be attached, instead of joining; nil: none

	patience context.Context // bounds the wait; nil: ctx and WithWait do
	outage   *outage         // of its own Joins; nil: the last one did not fail

	// Its result, and its links in the queue of this process. Guarded by the client's mu.
	owner      *owner
	queue      *localQueue
	lease      *Lease
	err        error
	news       chan struct{} // closed when lease or err is set
	prev, next *request
	queued     bool
}

// acquire acquires the lock, and waits for it unless r is a try.
func (k *lock) acquire(ctx context.Context, r *request) (*Lease, error) {
	l, err := r.prepare(ctx, k)
	if l != nil || err != nil {
		return l, k.client.failed(r.op, k.name, err)
	}
	over := r.observe(k.client.settings.observer)
	l, err = r.fulfil()
	err = k.client.failed(r.op, k.name, err)
	if over != nil {
		over(err)
	}
	return l, err
}

// prepare checks whether r is possible. It returns a lease if r re-enters one.
func (r *request) prepare(ctx context.Context, k *lock) (*Lease, error) {
	if err := k.usable(ctx); err != nil {
		return nil, err
	}
	able := &k.client.abilities
	switch {
	case !r.demand.Exclusive() && !able.Shared:
		return nil, k.client.lacks("shared locks")
	case r.demand.Kind == store.Semaphore && able.ReadersOnly:
		return nil, k.client.lacks("semaphores")
	}
	r.lock, r.ctx, r.outer = k, ctx, leaseFrom(ctx)
	if r.outer == nil || r.detached != nil { // a detached lease does not wait for the leases around it
		return nil, nil
	}
	return r.reenter()
}

// fulfil acquires the lock, however often a Join fails or a waiting claim is lost in the meantime.
func (r *request) fulfil() (*Lease, error) {
	patience := r.patience
	if patience == nil {
		patience = r.ctx
	}
	if s := r.lock.settings; s.wait > 0 && !r.try && r.patience == nil {
		var cancel context.CancelFunc
		patience, cancel = context.WithTimeout(r.ctx, s.wait)
		defer cancel()
	}
	for fails := int32(1); ; fails++ {
		if patience.Err() != nil {
			return nil, r.outage.explain(done(patience))
		}
		queued, search, err := r.attempt(patience)
		l := r.lease
		if queued != nil { // it waits here, where the stack is small, since many may wait
			l, err = queued.await(patience, search)
		}
		if r.owner != nil {
			r.leaveOwner(search)
		}
		if !errors.Is(err, errClaimLost) {
			return l, err
		}
		// The claim is gone: its Join failed, the store lost its data, or an operator broke it. Nothing was held yet,
		// so only its position in the queue is lost.
		r.lock.client.pause(patience, max(backoff(time.Second, fails), r.outage.pause(r.lock.settings.ttl)))
	}
}

// attempt joins the queue of the store, or waits behind other requests of this process. If it has to wait, it returns
// the request that is in the process's queue, and the search for a deadlock that the wait may have closed.
func (r *request) attempt(patience context.Context) (queued *request, search *search, err error) {
	c := r.lock.client
	c.begin()
	if c.isClosed() {
		c.end()
		r.owner = nil
		return nil, nil, ErrClosed
	}
	c.owners.enter(r)
	queued, cl := c.enqueue(r)
	if cl != nil {
		c.calls.Add(1)
		c.end()
		var status store.Status
		if r.detached != nil {
			status, err = r.detached.attach(patience, c, cl.Claim)
		} else {
			status, err = c.store.Join(patience, cl.Claim)
		}
		if err != nil && errors.Is(err, patience.Err()) {
			err = r.outage.explain(done(patience)) // with its cause
		}
		c.begin()
		if err = c.joined(cl, status, err); r.detached != nil && errors.Is(err, ErrLocked) {
			err = errDetachedLost
		}
		queued, err = r.afterJoin(cl, err)
		c.calls.Done()
	}
	if err == nil {
		r.outage = nil
	}
	if queued != nil {
		c.settle() // so that the queue has a claim
		search = c.newSearch(queued)
	}
	c.end()
	return queued, search, err
}

// leaveOwner notes that r no longer waits on behalf of its owner.
func (r *request) leaveOwner(search *search) {
	c := r.lock.client
	c.begin()
	search.end()
	c.owners.leave(r)
	c.end()
}

// enqueue puts r in the queue of its process, or else makes a claim for it. If r can share that claim, other requests
// may queue behind it. As long as such a shared claim waits, it has no owner: it does not wait for one request in
// particular.
func (c *Client) enqueue(r *request) (queued *request, cl *claim) {
	q := c.queues[r.lock.name]
	share := r.canShare()
	if share && q.suits(r.lock.settings) {
		return q.add(r, nil), nil
	}
	if !share || !q.free() {
		q = &localQueue{}
	} else if q == nil {
		q = &localQueue{public: true}
		c.queues[r.lock.name] = q
	}
	q.lock, q.claim = r.lock, c.newClaim(r, q)
	if !q.public {
		r.owner.adopt(q.claim)
	}
	return nil, q.claim
}

// afterJoin handles the result of r's own Join. r gets its lease, or an error, or waits in the process's queue for the
// claim, or for another that the queue sends. It waits in front of the requests that have queued since.
func (r *request) afterJoin(cl *claim, err error) (queued *request, _ error) {
	c, q := r.lock.client, cl.queue
	failing := &r.outage
	if q.public {
		failing = &q.outage
	}
	switch {
	case err == nil && cl.phase == held:
		c.handTo(cl, r, &cl.first)
		return nil, nil
	case err == nil:
		return q.add(r, q.waiters.first), nil
	case r.try || !c.tryAgain(failing, cl.Name, err):
		return nil, err // it does not concern requests that have queued in the meantime
	case q.public:
		return q.add(r, q.waiters.first), nil
	}
	return nil, errClaimLost
}

// await waits until r has its lease or an error, or gives up.
func (r *request) await(patience context.Context, search *search) (*Lease, error) {
	if search == nil && patience.Done() == nil {
		<-r.news // nothing else can happen
		return r.result()
	}
	select {
	case <-r.news:
		return r.result()
	case <-patience.Done():
		return nil, r.giveUp(patience)
	case err := <-search.result():
		_, _ = r.leave() // the claim that it waited with no longer matters
		if o := r.lock.client.settings.observer; o != nil {
			o.Deadlocked(r.described(), err)
		}
		return nil, err
	}
}

// result returns the lease or the error of r.
func (r *request) result() (*Lease, error) {
	switch {
	case r.lease == nil:
		return nil, r.err
	case r.lease.Err() != nil:
		return nil, errClaimLost // it was over before it could be used
	}
	return r.lease, nil
}

// giveUp takes r out of the queue and returns why it acquired nothing.
func (r *request) giveUp(patience context.Context) error {
	waited, fault := r.leave()
	why := done(patience)
	if fault != nil { // the store is failing: that is not contention
		return errors.Join(why, fault)
	}
	if !errors.Is(why, context.DeadlineExceeded) {
		return why
	}
	return r.lock.client.findHolder(r.lock.name, waited, why)
}

// leave takes r out of the process's queue, and releases a lease that it received at the last moment. It returns the
// claim that it waited with, and the store's last failure to respond about it.
func (r *request) leave() (waited Claim, fault error) {
	c, q := r.lock.client, r.queue
	c.begin()
	defer c.end()
	switch {
	case c.isClosed():
		return waited, nil
	case r.lease != nil:
		cl := r.lease.claim
		if r.lease.end(&errUnlocked) && cl.phase == held && !q.handOver(cl, time.Now()) {
			cl.stay = nil // the caller never had it
			c.withdraw(cl)
		}
		return cl.Claim, nil
	case !r.queued:
		return waited, r.err
	}
	for _, cl := range []*claim{q.claim, q.standby} {
		if cl != nil {
			waited, fault = cl.Claim, cl.fault()
		}
	}
	q.remove(r)
	return waited, fault
}

// findHolder returns a *LockedError that names the holder ahead of a claim that has waited, or the first holder if the
// claim has no ticket yet.
func (c *Client) findHolder(name string, waited Claim, why error) error {
	ctx, cancel := context.WithTimeout(c.closed, inspectTimeout)
	defer cancel()
	queue, err := c.store.Queue(ctx, name)
	if err != nil {
		return errors.Join(why, c.silence(ctx, inspectTimeout, err)) // that is not contention
	}
	var holder *store.Entry
	ahead := 0
	for i := range queue.Entries {
		e := &queue.Entries[i]
		if e.ID == waited.ID || waited.Ticket != 0 && e.Ticket > waited.Ticket {
			continue
		}
		if ahead++; holder == nil && e.State == store.Held {
			holder = e
		}
	}
	return lockedBy(name, holder, ahead, why)
}
