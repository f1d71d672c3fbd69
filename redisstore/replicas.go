package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// replicaSettings say how many replicas must have what a Join or Keep has written before it counts. Redis itself
// acknowledges before any of them has.
type replicaSettings struct {
	replicas int           // how many; 0: none is waited for
	patience time.Duration // how long they may take
}

// The bounds of how long replicas may take, and what a URL asks for that does not say.
const (
	defaultPatience = time.Second
	mostPatience    = time.Minute
)

func (r replicaSettings) check() error {
	if r.replicas < 0 || r.replicas > 0 && (r.patience < time.Millisecond || r.patience > mostPatience) {
		return fmt.Errorf("holdfast: replicas are waited for with a number and a time of a millisecond to %v", mostPatience)
	}
	return nil
}

// An unackedError says that what was written is not where it has to be before it counts.
type unackedError struct {
	got  int64
	want replicaSettings
}

func (e *unackedError) Error() string {
	return fmt.Sprintf("%d of %d replicas have acknowledged within %v, so that it does not count", e.got, e.want.replicas, e.want.patience)
}

// A receipt says of a call whether replicas have acknowledged what it wrote. It goes with the call's context, which is
// then the call's own.
type receipt struct{ short *unackedError }

type receiptKey struct{}

// newReceipt makes a receipt for a call that may grant or renew; nil where no replica has to acknowledge.
func (s *Store) newReceipt() *receipt {
	if s.replicas == 0 {
		return nil
	}
	return &receipt{}
}

// into puts a receipt into a call's context.
func (r *receipt) into(ctx context.Context) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, receiptKey{}, r)
}

// check says why a standing does not count. Only to hold depends on replicas: who waits or is gone does so anyway.
func (r *receipt) check(standing store.Standing) error {
	if r == nil || r.short == nil || standing.State != store.Held {
		return nil
	}
	return r.short
}

// rounds sends what is asked over a wire in rounds: all that came while the last one was under way, and one WAIT for it
// behind it. A WAIT holds up what comes after it on the same connection. So there is one for many, and nothing else
// uses that connection.
type rounds struct {
	wire *wire
	want replicaSettings

	mu   sync.Mutex
	next *round        // what the next one will send; nil: nothing
	due  chan struct{} // holds a token when there is a next one
}

// newRounds lets a wire send in rounds from now on.
func (w *wire) newRounds(want replicaSettings, tasks *sync.WaitGroup) {
	w.rounds = &rounds{wire: w, want: want, due: make(chan struct{}, 1)}
	tasks.Go(w.rounds.run)
}

// A round is what is sent at once.
type round struct {
	asked []*question
	short *unackedError // why they do not count
	done  chan struct{}
}

// A question is what one call sends with a round.
type question struct {
	ctx      context.Context // of who asks: what nobody waits for any more is not sent
	commands []rueidis.Completed
	answers  []rueidis.RedisResult
}

// do sends commands with the next round, and waits for their answers or until ctx is done.
func (r *rounds) do(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	r.mu.Lock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	mine, own := r.next, &question{ctx: ctx, commands: commands}
	mine.asked = append(mine.asked, own)
	r.mu.Unlock()
	select {
	case r.due <- struct{}{}:
	default:
	}
	select {
	case <-mine.done:
		if mine.short != nil {
			r, ok := ctx.Value(receiptKey{}).(*receipt)
			if !ok { // nobody could say that it does not count
				return rediswire.ErrorResults(len(commands), mine.short)
			}
			r.short = mine.short
		}
		return own.answers
	case <-r.wire.Dead():
		return rediswire.ErrorResults(len(commands), r.wire.Why())
	case <-ctx.Done():
		return rediswire.ErrorResults(len(commands), ctx.Err())
	}
}

// run makes rounds until the wire ends.
func (r *rounds) run() {
	for {
		select {
		case <-r.due:
		case <-r.wire.Dead():
			return
		}
		r.mu.Lock()
		current := r.next
		r.next = nil
		r.mu.Unlock()
		if current != nil {
			r.send(current)
			close(current.done)
		}
	}
}

// send sends one round, and waits for replicas to have it.
func (r *rounds) send(now *round) {
	ctx, cancel := context.WithTimeout(context.Background(), r.want.patience+rediswire.SilenceWithin)
	defer cancel()
	var commands []rueidis.Completed
	for _, q := range now.asked {
		if err := q.ctx.Err(); err != nil { // its Leave and the tombstone of that may be over when it lands
			q.answers = rediswire.ErrorResults(len(q.commands), err)
			continue
		}
		commands = append(commands, q.commands...)
	}
	n := len(commands)
	if n == 0 {
		return
	}
	wait := r.wire.Client.B().Wait().Numreplicas(int64(r.want.replicas)).Timeout(r.want.patience.Milliseconds()).Build()
	answers := r.wire.Client.DoMulti(ctx, append(commands, wait)...)
	got, err := answers[n].ToInt64()
	for i, answer := range answers[:n] {
		r.wire.Heed(answer)
		if err != nil && answer.Error() == nil { // what it was refused with tells more, such as where the slot is now
			answers[i] = rueidis.NewErrorResult(err)
		}
	}
	rest := answers[:n]
	for _, q := range now.asked {
		if q.answers == nil {
			q.answers, rest = rest[:len(q.commands)], rest[len(q.commands):]
		}
	}
	switch {
	case err != nil:
		r.wire.End(err) // who refuses to WAIT is a master no more
	case got < int64(r.want.replicas):
		now.short = &unackedError{got, r.want}
	}
}

// A confirmer asks after grants that were pushed. Such a grant was made by whoever left, and nobody has waited for the
// replicas to have it. So it is passed on only when a Keep has said the same.
type confirmer struct {
	mu    sync.Mutex
	stand map[store.ID]*pushable // the claims that are not held, as far as is known
	due   chan struct{}          // holds a token when one of them has to be asked after
}

// A pushable is a claim that a push may be about.
type pushable struct {
	claim   store.Claim
	waiting bool // it has been said to wait; otherwise its Join is under way
	pushed  bool // it is said to be held
}

func newConfirmer() *confirmer {
	return &confirmer{stand: map[store.ID]*pushable{}, due: make(chan struct{}, 1)}
}

// joining notes that a Join is under way: the push may come before its answer.
func (c *confirmer) joining(claim store.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stand[claim.ID] == nil {
		c.stand[claim.ID] = &pushable{claim: claim}
	}
}

// saw notes what an answer said of a claim.
func (c *confirmer) saw(claim *store.Claim, standing store.Standing, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.stand[claim.ID]
	switch {
	case err != nil && p != nil && !p.waiting, err == nil && standing.State != store.Waiting:
		delete(c.stand, claim.ID)
	case err == nil && p != nil: // otherwise it has left meanwhile, and nobody would ever forget it
		p.claim, p.waiting = *claim, true
		p.claim.Ticket = standing.Ticket
		if p.pushed {
			c.wake()
		}
	}
}

// forget drops a claim that leaves.
func (c *confirmer) forget(id store.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stand, id)
}

// pushed notes that a claim is said to be held.
func (c *confirmer) pushed(id store.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.stand[id]; p != nil {
		p.pushed = true
		c.wake()
	}
}

func (c *confirmer) wake() {
	select {
	case c.due <- struct{}{}:
	default:
	}
}

// take gives the claims that have to be asked after.
func (c *confirmer) take() (claims []store.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.stand {
		if p.waiting && p.pushed {
			p.pushed = false
			claims = append(claims, p.claim)
		}
	}
	return claims
}

// confirm asks after pushed grants until the store is closed. Where the answer does not come, the client's own Keep
// has to tell.
func (s *Store) confirm() {
	for {
		select {
		case <-s.confirmer.due:
		case <-s.frame.Life().Done():
			return
		}
		claims := s.confirmer.take()
		standings, err := s.Keep(s.frame.Life(), claims)
		for i := range standings {
			if k := standings[i]; err == nil && k.Err == nil && k.State != store.Waiting {
				s.frame.Push(claims[i].ID, store.Standing{State: k.State, Ticket: k.Ticket, Ahead: -1})
			}
		}
	}
}
