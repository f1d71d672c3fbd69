package holdfast

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/agenda"
	"github.com/holdfast-go/holdfast/store"
)

// The keeper decides when the store is called about a claim, and calls it: Keep for claims that are held or waiting,
// and Leave for those that are leaving. It is one timer and one agenda for all claims. When a claim is due, the keeper
// queues a call, and Client.end starts at most a few of them. The keeper never waits for a call itself, so a lease ends
// on time also while a renewal hangs. It is guarded by the client's mu.
type keeper struct {
	client *Client
	agenda agenda.Agenda[*claim]
	alarm  *time.Timer
	wakes  int64 // when the alarm goes off; 0: it is not set
	ahead  int64 // how far the wall clock was ahead of the monotonic one when last compared
	sent   uint64
	keeps  lane
	leaves lane
}

// A lane is a queue of calls, made by a bounded number of goroutines that exist only while there are some.
type lane struct {
	queue   []*claim
	more    bool // a call was queued since goroutines were last started
	running int
}

// The keeper's constants. Plain numbers are divisors of a claim's ttl.
const (
	maxBatch      = 512                    // claims in one Keep
	maxCalls      = 4                      // calls under way at once in each lane
	patience      = 4                      // a call may take ttl/4, within the next two
	leastPatience = 50 * time.Millisecond  // a busy machine is not a silent store
	mostPatience  = 5 * time.Second        // a silent call delays others
	earlyBy       = 32                     // claims due within ttl/32 are kept together with those due now
	leastPause    = 4                      // a claim is kept again after a quarter of the time left, at the earliest
	confirmWithin = 100                    // a pushed grant is confirmed after ttl/100
	doubtPause    = 16                     // pushes that are not believed cause at most three calls in ttl/16
	pulse         = time.Second            // the clocks are compared at least this often while there are claims
	jump          = 100 * time.Millisecond // how far the wall clock runs ahead before all leases are checked
	leastRecheck  = time.Millisecond       // how soon a store can cause the next call
	longestPause  = time.Second            // between two tries, however long the ttl is
)

// schedule adds cl to the agenda, or moves it there, by its next deadline: when it is due, and for a held claim also
// when it expires.
func (k *keeper) schedule(cl *claim) {
	at := int64(math.MaxInt64)
	if !cl.calling {
		at = cl.due
	}
	if cl.phase == held {
		at = min(at, cl.until.mono.Load())
	}
	switch {
	case at == math.MaxInt64:
		k.unschedule(cl)
	case cl.pos == agenda.Off:
		k.agenda.Add(cl, at)
	default:
		k.agenda.Move(cl.pos, at)
	}
}

// unschedule removes cl from the agenda.
func (k *keeper) unschedule(cl *claim) {
	if cl.pos != agenda.Off {
		k.agenda.Remove(cl.pos)
	}
}

// keepLater sets when cl is kept next, after the store returned s: a third of its ttl after the acknowledged request
// was sent, or at once if something happened in the meantime.
func (k *keeper) keepLater(cl *claim, s store.Status, at time.Time) {
	now, until := mono(at), mono(s.Until)
	soonest := now + int64(leastRecheck)
	due := max(until-int64(cl.TTL*2/3), now+(until-now)/leastPause, soonest)
	if cl.phase == waiting && !s.RecheckAt.IsZero() {
		due = min(due, max(mono(s.RecheckAt), soonest))
	}
	if cl.quiet != 0 { // further pushes may have arrived since the call was queued
		due = min(due, max(cl.quiet, soonest))
	}
	cl.due = due
	if cl.again {
		k.enqueue(cl)
	} else {
		k.schedule(cl)
	}
}

// retryLater sets when the store is called about cl again after a failure.
func (k *keeper) retryLater(cl *claim, err error) {
	cl.setFault(err)
	cl.fails++
	cl.due = monoNow() + int64(backoff(cl.TTL, cl.fails))
	k.schedule(cl)
}

// recheck queues a call about cl now, or a second one if a call is under way that may have missed an event.
func (k *keeper) recheck(cl *claim) {
	switch {
	case cl.lingers:
	case cl.calling || cl.phase == joining:
		cl.again = true
	default:
		k.enqueue(cl)
	}
}

// doubt rechecks a claim after a push that is not believed. Other clients may have forged it, and may send more. So it
// rechecks at once, and for all pushes within ttl/16 after that once more at the end of that time (see keepLater).
func (k *keeper) doubt(cl *claim) {
	if now := monoNow(); now >= cl.quiet {
		cl.quiet = now + int64(cl.TTL/doubtPause)
		k.recheck(cl)
	}
}

// enqueue queues a call about cl: Leave if cl is leaving, and Keep otherwise.
func (k *keeper) enqueue(cl *claim) {
	cl.calling, cl.again, cl.lingers = true, false, false
	if cl.quiet != 0 && cl.quiet <= monoNow() {
		cl.quiet = 0
	}
	l := &k.keeps
	if cl.phase == leaving {
		l = &k.leaves
	}
	l.queue, l.more = append(l.queue, cl), true
	k.schedule(cl)
}

// launch starts goroutines for the calls that were queued, as many as they fill.
func (k *keeper) launch() {
	if k.keeps.more {
		k.start(&k.keeps, maxBatch, k.keepDue)
	}
	if k.leaves.more {
		k.start(&k.leaves, 1, k.leaveDue)
	}
}

// start starts as many calls of work as the queue of the lane needs, with batch claims each, up to maxCalls in
// progress.
func (k *keeper) start(l *lane, batch int, work func()) {
	l.more = false
	for n := len(l.queue); n > 0 && l.running < maxCalls; n -= batch {
		l.running++
		k.client.calls.Go(work)
	}
}

// setAlarm ensures that the keeper wakes up when a claim is due. An alarm that is too early is left unchanged: it finds
// nothing and sets itself again. So a lock that is acquired and released costs no timer.
func (k *keeper) setAlarm() {
	if len(k.agenda) == 0 {
		return
	}
	_, due := k.agenda.First()
	if k.wakes != 0 && k.wakes <= due {
		return
	}
	now := monoNow()
	k.wakes = max(min(due, now+int64(pulse)), now+1)
	if k.alarm == nil {
		k.alarm = time.AfterFunc(time.Duration(k.wakes-now), k.tick)
	} else {
		k.alarm.Reset(time.Duration(k.wakes - now))
	}
}

// stop stops the keeper. Nothing is queued after it.
func (k *keeper) stop() {
	if k.alarm != nil {
		k.alarm.Stop()
	}
	k.agenda, k.keeps.queue, k.leaves.queue = nil, nil, nil
}

// tick handles the claims that are due. Its cost grows with their number, not with the number of all claims.
func (k *keeper) tick() {
	c := k.client
	c.begin()
	defer c.end()
	k.wakes = 0
	if c.isClosed() {
		return
	}
	now := time.Now()
	if k.clockJumped(now) {
		for _, cl := range c.claims {
			if cl.phase == held && cl.isOver(now) {
				c.lose(cl, cl.expired())
			}
		}
	}
	for len(k.agenda) > 0 {
		cl, _ := k.agenda.First()
		switch {
		case cl.phase == held && cl.isOver(now):
			c.lose(cl, cl.expired())
		case cl.calling || cl.due-cl.earliness() > mono(now):
			return
		case cl.phase == waiting && cl.queue.empty():
			c.withdraw(cl) // a standby that no request waits for any more
		default:
			k.enqueue(cl)
		}
	}
}

// earliness returns how much earlier than due the call about cl may be. It is 0 after a failure, and for a claim that
// leaves after its grace.
func (cl *claim) earliness() int64 {
	if cl.fails > 0 || cl.phase == leaving {
		return 0
	}
	return int64(cl.TTL / earlyBy)
}

// clockJumped reports whether the wall clock ran ahead of the monotonic one. The monotonic clock, by which the agenda
// is ordered, does not count the time in which a machine was suspended: leases may be over by the wall clock alone.
func (k *keeper) clockJumped(now time.Time) bool {
	before := k.ahead
	k.ahead = wallAhead(now)
	return k.ahead-before > int64(jump)
}

// wallAhead returns how far the wall clock is ahead of the monotonic one.
func wallAhead(now time.Time) int64 { return now.UnixNano() - mono(now) }

// take removes up to n claims from the lane, without those that are no longer wanted there. If it returns none, the
// goroutine that called it has to end.
func (k *keeper) take(l *lane, n int, wanted func(*claim) bool) []*claim {
	k.client.begin()
	defer k.client.end()
	var batch []*claim
	for len(batch) < n && len(l.queue) > 0 {
		cl := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		if wanted(cl) {
			batch = append(batch, cl)
		}
	}
	if len(batch) == 0 {
		l.running--
		l.queue = nil
	}
	return batch
}

// keepDue keeps the claims that are queued, batch by batch.
func (k *keeper) keepDue() {
	var buffer []Claim
	lives := func(cl *claim) bool { return cl.phase == held || cl.phase == waiting }
	for batch := k.take(&k.keeps, maxBatch, lives); len(batch) > 0; batch = k.take(&k.keeps, maxBatch, lives) {
		buffer = k.keep(k.client.closed, batch, buffer)
	}
}

// keep calls Keep for these claims and handles the response. It writes the claims that it sends into buffer, which it
// grows if necessary and returns for the next call.
func (k *keeper) keep(ctx context.Context, batch []*claim, buffer []Claim) []Claim {
	if len(batch) == 0 {
		return buffer
	}
	c := k.client
	c.begin()
	claims := buffer[:0]
	ttl := batch[0].TTL
	for _, cl := range batch {
		sending := cl.Claim
		sending.Waits = cl.owner.edges()
		claims = append(claims, sending)
		ttl = min(ttl, cl.TTL)
	}
	k.sent++
	sent := k.sent
	c.end()

	limit := callTimeout(ttl)
	bounded, cancel := context.WithTimeout(ctx, limit)
	began := time.Now()
	statuses, err := c.store.Keep(bounded, claims)
	if ctx.Err() == nil {
		err = c.silence(bounded, limit, err)
		for i := range statuses {
			statuses[i].Err = c.silence(bounded, limit, statuses[i].Err)
		}
	}
	cancel()
	if err == nil && len(statuses) != len(claims) {
		short := fmt.Errorf("it responded for %d claims of %d", len(statuses), len(claims))
		err = &Fault{Store: c.abilities.Store, Err: short}
	}
	if o := c.settings.observer; o != nil {
		o.Renewed(c.abilities.Store, len(claims), time.Since(began), err)
	}

	c.begin()
	defer c.end()
	now := time.Now()
	for i, cl := range batch {
		if err != nil {
			c.kept(cl, store.Status{Err: err}, sent, now)
		} else {
			c.kept(cl, statuses[i], sent, now)
		}
	}
	return claims
}

// leaveDue calls Leave for the claims that are queued, one by one, but not for those that have expired in the meantime.
func (k *keeper) leaveDue() {
	c := k.client
	leaves := func(cl *claim) bool {
		if cl.phase == leaving && monoNow() >= cl.giveUp {
			c.warn("holdfast: not released; it has expired in the store", "name", cl.Name, "err", cl.fault())
			c.drop(cl)
		}
		return cl.phase == leaving
	}
	for batch := k.take(&k.leaves, 1, leaves); len(batch) > 0; batch = k.take(&k.leaves, 1, leaves) {
		k.leave(batch[0])
	}
}

func (k *keeper) leave(cl *claim) {
	c := k.client
	limit := callTimeout(cl.TTL)
	ctx, cancel := context.WithTimeout(c.closed, limit)
	err := c.leave(ctx, cl) // a claim that is leaving does not change
	cancel()
	c.begin()
	defer c.end()
	if cl.phase != leaving {
		return
	}
	cl.calling = false
	if err == nil || store.Final(err) {
		if cl.Ticket != 0 { // a Leave after a failed Join does not prove that the next Join will get a response
			c.heard++
		}
		c.drop(cl)
		return
	}
	k.retryLater(cl, c.silence(ctx, limit, err))
}

// backoff returns how long to wait after this number of failures in a row: from ttl/48, doubling, up to ttl/6 or a
// second, less a random part, so that clients of a store that recovers do not all call it at once.
func backoff(ttl time.Duration, fails int32) time.Duration {
	d := min(ttl/48<<min(max(fails-1, 0), 3), longestPause)
	return d - rand.N(d/4+1)
}

// callTimeout returns the timeout of one call about a claim of this ttl.
func callTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/patience, leastPatience), mostPatience)
}
