package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/agenda"
	"github.com/holdfast-go/holdfast/store"
)

// The keeper keeps all claims of a client alive, held and waiting, whatever their number. It is a timer and an
// agenda: when something is due, it runs, queues what is to be said to the store, and starts at most a few calls.
// It never waits for a call itself. So a lease ends on time also while a renewal hangs.
type keeper struct {
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
func (c *Client) schedule(cl *claim) {
	at := int64(math.MaxInt64)
	if !cl.calling {
		at = cl.due
	}
	if cl.phase == held {
		at = min(at, cl.until.mono.Load())
	}
	if at == math.MaxInt64 {
		c.unschedule(cl)
		return
	}
	if cl.pos == agenda.Off {
		c.keeper.agenda.Add(cl, at)
	} else {
		c.keeper.agenda.Move(cl.pos, at)
	}
	c.setAlarm()
}

// unschedule takes cl off the agenda.
func (c *Client) unschedule(cl *claim) {
	if cl.pos != agenda.Off {
		c.keeper.agenda.Remove(cl.pos)
	}
}

// setAlarm makes sure that the keeper wakes up when something is due. An alarm that is too early is left as it
// is: it finds nothing and sets itself again. So a lock that is taken and given back costs no timer.
func (c *Client) setAlarm() {
	k := &c.keeper
	if len(k.agenda) == 0 {
		return
	}
	_, due := k.agenda.First()
	if k.wakes != 0 && k.wakes <= due {
		return
	}
	now := c.now()
	k.wakes = max(min(due, now+int64(pulse)), now+1)
	if k.alarm == nil {
		k.alarm = time.AfterFunc(time.Duration(k.wakes-now), c.tick)
	} else {
		k.alarm.Reset(time.Duration(k.wakes - now))
	}
}

// stopKeeper ends the keeper. Nothing is queued after it.
func (c *Client) stopKeeper() {
	k := &c.keeper
	if k.alarm != nil {
		k.alarm.Stop()
	}
	k.agenda, k.keeps.queue, k.leaves.queue = nil, nil, nil
}

// tick does what is due. Its cost grows with that, not with the number of claims.
func (c *Client) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.keeper
	k.wakes = 0
	if c.isClosed() {
		return
	}
	now := time.Now()
	mono := int64(now.Sub(c.start))
	c.compareClocks(now, mono)
	for len(k.agenda) > 0 {
		cl, _ := k.agenda.First()
		if cl.phase == held && c.isOver(cl, now) {
			c.lose(cl, cl.ranOut())
			continue
		}
		if cl.calling || cl.due-cl.earliness() > mono {
			break
		}
		if cl.phase == waiting && cl.relay.queue.first == nil {
			c.withdraw(cl) // a standby that nobody wants any more
			continue
		}
		c.queue(cl)
	}
	c.launch()
	c.setAlarm()
}

// earliness is how much earlier than due cl may be spoken about. What failed waits for its time, and so does what
// leaves after its grace.
func (cl *claim) earliness() int64 {
	if cl.fails > 0 || cl.phase == leaving {
		return 0
	}
	return int64(cl.TTL / earlyBy)
}

// queue puts cl in line for a call of the store.
func (c *Client) queue(cl *claim) {
	cl.calling, cl.again, cl.lingers = true, false, false
	if cl.hushed != 0 && cl.hushed <= c.now() {
		cl.hushed = 0
	}
	if cl.phase == leaving {
		c.keeper.leaves.queue = append(c.keeper.leaves.queue, cl)
	} else {
		c.keeper.keeps.queue = append(c.keeper.keeps.queue, cl)
	}
	c.schedule(cl)
}

// launch starts goroutines for what is queued, as many as it is worth.
func (c *Client) launch() {
	start := func(l *lane, batch int, work func()) {
		for n := len(l.queue); n > 0 && l.running < maxCalls; n -= batch {
			l.running++
			c.calls.Go(work)
		}
	}
	start(&c.keeper.keeps, maxBatch, c.keepDue)
	start(&c.keeper.leaves, 1, c.leaveDue)
}

// speak calls the store about cl at once.
func (c *Client) speak(cl *claim) {
	c.queue(cl)
	c.launch()
}

// compareClocks looks for leases that are over by the wall clock alone. A machine that was suspended wakes up
// with a monotonic clock that has not noticed, and the agenda goes by that one.
func (c *Client) compareClocks(now time.Time, mono int64) {
	k := &c.keeper
	ahead := now.UnixNano() - mono
	jumped := ahead-k.ahead > int64(jump)
	k.ahead = ahead
	if !jumped {
		return
	}
	for _, cl := range c.claims {
		if cl.phase == held && c.isOver(cl, now) {
			c.lose(cl, cl.ranOut())
		}
	}
}

// keepEverything speaks about all claims: a store that is back can be asked, and told of what is leaving.
func (c *Client) keepEverything() {
	for _, cl := range c.claims {
		c.ask(cl)
	}
	for _, r := range c.relays {
		r.notYet = 0
		c.staff(r)
	}
}

// ask asks the store about cl at once, or once more if a call is under way that may have missed something.
func (c *Client) ask(cl *claim) {
	switch {
	case cl.lingers:
	case cl.calling || cl.phase == joining:
		cl.again = true
	default:
		c.speak(cl)
	}
}

// take removes up to n claims from the lane that are still wanted there. Without any, the goroutine that asked has
// to end.
func (c *Client) take(l *lane, n int, wanted func(*claim) bool) []*claim {
	c.mu.Lock()
	defer c.mu.Unlock()
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
func (c *Client) keepDue() {
	var claims []store.Claim
	stands := func(cl *claim) bool { return cl.phase == held || cl.phase == waiting }
	for batch := c.take(&c.keeper.keeps, maxBatch, stands); len(batch) > 0; batch = c.take(&c.keeper.keeps, maxBatch, stands) {
		claims = c.keep(c.closed, batch, claims)
	}
}

// keep says to the store that these claims live on, and takes its answers. What it sends it writes into claims, as far
// as that has room, and gives it back for the next call.
func (c *Client) keep(ctx context.Context, batch []*claim, claims []store.Claim) []store.Claim {
	if len(batch) == 0 {
		return claims
	}
	c.mu.Lock()
	claims = claims[:0]
	ttl := batch[0].TTL
	for _, cl := range batch {
		said := cl.Claim
		said.Waits = cl.owner.edges()
		claims = append(claims, said)
		ttl = min(ttl, cl.TTL)
	}
	c.keeper.sent++
	sent := c.keeper.sent
	c.mu.Unlock()

	limit := callTimeout(ttl)
	bounded, cancel := context.WithTimeout(ctx, limit)
	observer, began := c.settings.observer, time.Time{}
	if observer != nil {
		began = time.Now()
	}
	standings, err := c.store.Keep(bounded, claims)
	if ctx.Err() == nil {
		err = c.silence(bounded, limit, err)
		for i := range standings {
			standings[i].Err = c.silence(bounded, limit, standings[i].Err)
		}
	}
	cancel()
	if err == nil && len(standings) != len(claims) {
		err = &store.Fault{Store: c.abilities.Store, Err: fmt.Errorf("it answered for %d claims of %d", len(standings), len(claims))}
	}

	if observer != nil {
		observer.Renewed(c.abilities.Store, len(claims), time.Since(began), err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for i, cl := range batch {
		if err != nil {
			c.answered(cl, store.Standing{Err: err}, sent, now)
		} else {
			c.answered(cl, standings[i], sent, now)
		}
	}
	return claims
}

// later sets when cl is to be kept next: a third of its ttl after what was acknowledged was sent, or at once if
// something came up meanwhile.
func (c *Client) later(cl *claim, s store.Standing, now time.Time) {
	mono := now.Sub(c.start)
	until := s.Until.Sub(c.start)
	due := max(until-cl.TTL*2/3, mono+max((until-mono)/leastPause, leastAsk))
	if cl.phase == waiting && !s.AskAgain.IsZero() {
		due = min(due, max(s.AskAgain.Sub(c.start), mono+leastAsk))
	}
	if cl.hushed != 0 { // more may have been pushed since the call was queued
		due = min(due, max(time.Duration(cl.hushed), mono+leastAsk))
	}
	cl.due = int64(due)
	if cl.again {
		c.speak(cl)
		return
	}
	c.schedule(cl)
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

// silence turns the error of a call that only this client bounded, by limit, into what it means: the store did not
// answer.
func (c *Client) silence(ctx context.Context, limit time.Duration, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &store.Fault{Store: c.abilities.Store, Err: fmt.Errorf("no answer in %v", limit)}
}

// leaveDue tells the store to take out what is queued, one by one. What the store has forgotten by itself meanwhile
// is not worth a call.
func (c *Client) leaveDue() {
	gone := func(cl *claim) bool {
		if cl.phase == leaving && c.now() >= cl.giveUp {
			c.warn("holdfast: not given back; the store forgets it by itself", "name", cl.Name, "err", cl.fault())
			c.drop(cl)
		}
		return cl.phase == leaving
	}
	for batch := c.take(&c.keeper.leaves, 1, gone); len(batch) > 0; batch = c.take(&c.keeper.leaves, 1, gone) {
		c.leaveAgain(batch[0])
	}
}

func (c *Client) leaveAgain(cl *claim) {
	ctx, cancel := context.WithTimeout(c.closed, callTimeout(cl.TTL))
	err := c.store.Leave(ctx, cl.Claim) // nothing changes in a claim that is leaving
	cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
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
	err = c.silence(ctx, callTimeout(cl.TTL), err)
	cl.failed.Store(&err)
	cl.fails++
	cl.due = c.now() + int64(backoff(cl.TTL, cl.fails))
	c.schedule(cl)
}

// release gives a lease back: to the next of this process, or to the store. If the store does not confirm it, the
// keeper repeats it.
func (c *Client) release(ctx context.Context, l *Lease, now time.Time) error {
	cl := l.claim
	c.mu.Lock()
	switch {
	case c.isClosed():
		c.mu.Unlock()
		return ErrClosed
	case cl.phase != held: // its time has just run out, and the keeper has it
		c.mu.Unlock()
		return nil
	case cl.stillHas(l):
		c.mu.Unlock()
		return nil
	}
	if next := c.passOn(cl, now); next != nil {
		c.mu.Unlock()
		next.tell()
		return nil
	}
	if ctx.Err() != nil {
		c.withdraw(cl)
		c.staff(cl.relay)
		c.mu.Unlock()
		return done(ctx)
	}
	c.drop(cl)
	c.staff(cl.relay)
	c.calls.Add(1)
	c.mu.Unlock()
	defer c.calls.Done()

	err := c.store.Leave(ctx, cl.Claim)
	if err != nil && !store.Final(err) {
		c.mu.Lock()
		if !c.isClosed() {
			c.withdraw(cl)
		}
		c.mu.Unlock()
	}
	return err
}
