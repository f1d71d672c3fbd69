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

// The keeper decides when the store is called about a claim, and calls it: Keep for claims that stand, held and
// waiting, and Leave for those that are to go, whatever their number. It is a timer and an agenda: when something is
// due, it queues what is to be said to the store, and end starts at most a few calls. It never waits for a call itself.
// So a lease ends on time also while a renewal hangs. It is guarded by the client's mu.
type keeper struct {
	client *Client
	agenda agenda.Agenda[*claim]
	alarm  *time.Timer
	wakes  int64 // when the alarm goes off; 0: it is not set
	ahead  int64 // how far the wall clock was ahead of the monotonic one when last looked at
	sent   uint64
	keeps  lane
	leaves lane
}

// A lane is work for the store, done by a bounded number of goroutines that exist only while there is some.
type lane struct {
	queue   []*claim
	more    bool // something was queued since goroutines were last started
	running int
}

// The keeper's measures. Those in parts are parts of a claim's ttl.
const (
	maxBatch      = 512                    // claims in one Keep
	maxCalls      = 4                      // calls under way at once in each lane
	patience      = 4                      // a call may take ttl/4, within the next two
	leastPatience = 50 * time.Millisecond  // a busy machine is not a silent store
	mostPatience  = 5 * time.Second        // a silent call holds up others
	earlyBy       = 32                     // what is due within ttl/32 goes along with what is due now
	leastPause    = 4                      // a claim is kept again after a quarter of what it has left, at the earliest
	confirmWithin = 100                    // a pushed grant is confirmed after ttl/100
	doubtPause    = 16                     // pushes that are not believed make us ask up to three times in ttl/16
	pulse         = time.Second            // the clocks are compared at least this often while claims stand
	jump          = 100 * time.Millisecond // how far the wall clock runs ahead before it is looked into
	leastAsk      = time.Millisecond       // how soon a store can make us ask again
	longestPause  = time.Second            // between two tries, however long the ttl is
)

// schedule puts cl on the agenda, or moves it there, by when something is to be done about it: when it is due, and a
// held one also when its time is over.
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

// unschedule takes cl off the agenda.
func (k *keeper) unschedule(cl *claim) {
	if cl.pos != agenda.Off {
		k.agenda.Remove(cl.pos)
	}
}

// keepLater sets when cl is to be kept next, after the store answered s: a third of its ttl after what was
// acknowledged was sent, or at once if something came up meanwhile.
func (k *keeper) keepLater(cl *claim, s store.Status, at time.Time) {
	now, until := mono(at), mono(s.Until)
	soonest := now + int64(leastAsk)
	due := max(until-int64(cl.TTL*2/3), now+(until-now)/leastPause, soonest)
	if cl.phase == waiting && !s.RecheckAt.IsZero() {
		due = min(due, max(mono(s.RecheckAt), soonest))
	}
	if cl.hushed != 0 { // more may have been pushed since the call was queued
		due = min(due, max(cl.hushed, soonest))
	}
	cl.due = due
	if cl.again {
		k.enqueue(cl)
	} else {
		k.schedule(cl)
	}
}

// retryLater sets when the store is to be called about cl again, after it failed to answer.
func (k *keeper) retryLater(cl *claim, err error) {
	cl.setFault(err)
	cl.fails++
	cl.due = monoNow() + int64(backoff(cl.TTL, cl.fails))
	k.schedule(cl)
}

// ask has the store asked about cl at once, or once more if a call is under way that may have missed something.
func (k *keeper) ask(cl *claim) {
	switch {
	case cl.lingers:
	case cl.calling || cl.phase == joining:
		cl.again = true
	default:
		k.enqueue(cl)
	}
}

// doubt asks about a claim after a push that is not believed. Strangers may have forged it, and may send more: so it
// asks at once, and for all that come within ttl/16 after that once more at their end (see keepLater).
func (k *keeper) doubt(cl *claim) {
	if now := monoNow(); now >= cl.hushed {
		cl.hushed = now + int64(cl.TTL/doubtPause)
		k.ask(cl)
	}
}

// enqueue has the store called about cl: Leave if cl is leaving, and Keep otherwise.
func (k *keeper) enqueue(cl *claim) {
	cl.calling, cl.again, cl.lingers = true, false, false
	if cl.hushed != 0 && cl.hushed <= monoNow() {
		cl.hushed = 0
	}
	l := &k.keeps
	if cl.phase == leaving {
		l = &k.leaves
	}
	l.queue, l.more = append(l.queue, cl), true
	k.schedule(cl)
}

// launch starts goroutines for what was queued, as many as it is worth.
func (k *keeper) launch() {
	if k.keeps.more {
		k.start(&k.keeps, maxBatch, k.keepDue)
	}
	if k.leaves.more {
		k.start(&k.leaves, 1, k.leaveDue)
	}
}

func (k *keeper) start(l *lane, batch int, work func()) {
	l.more = false
	for n := len(l.queue); n > 0 && l.running < maxCalls; n -= batch {
		l.running++
		k.client.calls.Go(work)
	}
}

// setAlarm makes sure that the keeper wakes up when something is due. An alarm that is too early is left as it
// is: it finds nothing and sets itself again. So a lock that is taken and given back costs no timer.
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

// stop ends the keeper. Nothing is queued after it.
func (k *keeper) stop() {
	if k.alarm != nil {
		k.alarm.Stop()
	}
	k.agenda, k.keeps.queue, k.leaves.queue = nil, nil, nil
}

// tick does what is due. Its cost grows with that, not with the number of claims.
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
				c.lose(cl, cl.ranOut())
			}
		}
	}
	for len(k.agenda) > 0 {
		cl, _ := k.agenda.First()
		switch {
		case cl.phase == held && cl.isOver(now):
			c.lose(cl, cl.ranOut())
		case cl.calling || cl.due-cl.earliness() > mono(now):
			return
		case cl.phase == waiting && cl.queue.empty():
			c.withdraw(cl) // a standby that nobody wants any more
		default:
			k.enqueue(cl)
		}
	}
}

// earliness is how much earlier than due cl may be called about. What failed waits for its time, and so does what
// leaves after its grace.
func (cl *claim) earliness() int64 {
	if cl.fails > 0 || cl.phase == leaving {
		return 0
	}
	return int64(cl.TTL / earlyBy)
}

// clockJumped reports whether the wall clock ran ahead of the monotonic one. A machine that was suspended wakes up with
// a monotonic clock that has not noticed, and the agenda goes by that one: leases may be over by the wall clock alone.
func (k *keeper) clockJumped(now time.Time) bool {
	before := k.ahead
	k.ahead = wallAhead(now)
	return k.ahead-before > int64(jump)
}

// wallAhead is how far the wall clock is ahead of the monotonic one.
func wallAhead(now time.Time) int64 { return now.UnixNano() - mono(now) }

// take removes up to n claims from the lane that are still wanted there. Without any, the goroutine that asked has
// to end.
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

// keepDue keeps what is queued, batch by batch.
func (k *keeper) keepDue() {
	var buffer []Claim
	stands := func(cl *claim) bool { return cl.phase == held || cl.phase == waiting }
	for batch := k.take(&k.keeps, maxBatch, stands); len(batch) > 0; batch = k.take(&k.keeps, maxBatch, stands) {
		buffer = k.keep(k.client.closed, batch, buffer)
	}
}

// keep tells the store that these claims live on, and takes its answers. What it sends it writes into buffer, as far
// as that has room, and returns it for the next call.
func (k *keeper) keep(ctx context.Context, batch []*claim, buffer []Claim) []Claim {
	if len(batch) == 0 {
		return buffer
	}
	c := k.client
	c.begin()
	claims := buffer[:0]
	ttl := batch[0].TTL
	for _, cl := range batch {
		said := cl.Claim
		said.Waits = cl.owner.edges()
		claims = append(claims, said)
		ttl = min(ttl, cl.TTL)
	}
	k.sent++
	sent := k.sent
	c.end()

	limit := callTimeout(ttl)
	bounded, cancel := context.WithTimeout(ctx, limit)
	began := time.Now()
	standings, err := c.store.Keep(bounded, claims)
	if ctx.Err() == nil {
		err = c.silence(bounded, limit, err)
		for i := range standings {
			standings[i].Err = c.silence(bounded, limit, standings[i].Err)
		}
	}
	cancel()
	if err == nil && len(standings) != len(claims) {
		short := fmt.Errorf("it answered for %d claims of %d", len(standings), len(claims))
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
			c.answered(cl, store.Status{Err: err}, sent, now)
		} else {
			c.answered(cl, standings[i], sent, now)
		}
	}
	return claims
}

// leaveDue tells the store to take out what is queued, one by one. What the store has forgotten by itself meanwhile
// is not worth a call.
func (k *keeper) leaveDue() {
	c := k.client
	leaves := func(cl *claim) bool {
		if cl.phase == leaving && monoNow() >= cl.giveUp {
			c.warn("holdfast: not given back; the store forgets it by itself", "name", cl.Name, "err", cl.fault())
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
	err := c.store.Leave(ctx, cl.Claim) // nothing changes in a claim that is leaving
	cancel()
	c.begin()
	defer c.end()
	if cl.phase != leaving {
		return
	}
	cl.calling = false
	if err == nil || store.Final(err) {
		if cl.Ticket != 0 { // that of a Join which failed does not say that the next one will be answered
			c.heard++
		}
		c.drop(cl)
		return
	}
	k.retryLater(cl, c.silence(ctx, limit, err))
}

// backoff is how long to wait after so many failures in a row: from ttl/48, doubling, up to ttl/6 or a second, by
// chance a little less, so that clients of a store that comes back do not all come at once.
func backoff(ttl time.Duration, fails int32) time.Duration {
	d := min(ttl/48<<min(max(fails-1, 0), 3), longestPause)
	return d - rand.N(d/4+1)
}

// callTimeout bounds one call about a claim of this ttl.
func callTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/patience, leastPatience), mostPatience)
}
