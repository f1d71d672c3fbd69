package broken

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/child"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// A player is one client of the lock.
type player struct {
	*stage
	part  *part
	links []*proxy.Proxy // its connections to the servers, in their order
	hand  handle         // nil: it has no lock
	reg   register       // nil: there is nothing that the lock protects
	proc  *process       // nil: it is a goroutine of this process
	waits []*wait
	quiet bool // its steps are not reported

	belief *belief          // nil: it does not believe that it holds the lock, or it is a process
	update *history.Calling // what it has read, and has not written yet
	value  uint64           // what that was
}

// enter adds a player: a client in this process.
func (s *stage) enter(name string, change ...func(*part)) *player {
	p := s.cast(name, change)
	var err error
	p.hand, p.reg, err = p.part.open(s.ctx)
	s.must(err)
	return p
}

// enterProcess adds a player in a separate process, which can be stopped and killed.
func (s *stage) enterProcess(change ...func(*part)) *player {
	p := s.cast("A", change)
	proc, err := startProcess(s.ctx, s.lab.Command, &order{*p.part, s.dir})
	s.must(err)
	p.proc, p.hand = proc, proc
	if s.rung.register != nil {
		p.reg = p.proc
	}
	return p
}

// cast makes a player, with a proxy for each server.
func (s *stage) cast(name string, change []func(*part)) *player {
	p := &player{stage: s, part: &part{
		Rung: s.rung.Name, Holdfast: s.holdfast, Player: name, Lock: s.lock, Kind: history.Exclusive,
		TTL: 10 * time.Second, Addrs: s.addrs,
	}}
	s.players = append(s.players, p)
	if s.proxied {
		p.part.Addrs = nil
		for _, addr := range s.addrs {
			link, err := proxy.Start("tcp", addr)
			s.must(err)
			p.links = append(p.links, link)
			p.part.Addrs = append(p.part.Addrs, link.Addr())
		}
	}
	for _, change := range change {
		change(p.part)
	}
	return p
}

// ttl is a change of a player's part: how long its lock lasts.
func ttl(d time.Duration) func(*part) { return func(p *part) { p.TTL = d } }

// skew is a change of a player's part: by how much its clock is ahead.
func skew(d time.Duration) func(*part) { return func(p *part) { p.Skew = d } }

// A wait is an attempt to acquire the lock.
type wait struct {
	*player
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// asks requests the lock and returns the wait.
func (p *player) asks() *wait {
	p.says("asks for the lock")
	ctx, cancel := context.WithCancel(p.ctx)
	w := &wait{player: p, cancel: cancel, done: make(chan struct{})}
	p.waits = append(p.waits, w)
	recorded := p.recorder.Wait(history.Wait{Who: p.part.who(), Resource: p.part.Lock, Kind: p.part.Kind})
	p.running.Go(func() {
		defer close(w.done)
		if w.err = p.hand.acquire(ctx); w.err != nil {
			recorded.GaveUp()
			return
		}
		recorded.Granted(p.hand.token())
		p.holds()
	})
	return w
}

// locks waits until the player has the lock.
func (p *player) locks() { p.asks().granted() }

// granted waits until the lock is granted.
func (w *wait) granted() {
	if w.grantedWithin(patience) {
		return
	}
	if w.over() {
		w.must(w.err)
	}
	w.must(fmt.Errorf("%s has not got the lock after %v", w.part.Player, patience))
}

// inLine waits until this many clients wait in the queue, or this one has acquired the lock. Broken locks have no
// queue.
func (w *wait) inLine(waiters int) {
	c, ok := w.hand.(*client)
	if !ok {
		return
	}
	w.await("the attempt stands in the line", func() bool {
		line, err := c.locks.Inspect(w.ctx, w.part.Lock)
		return err == nil && len(line.Waiters()) >= waiters || w.over()
	})
}

// over reports whether the attempt has ended.
func (w *wait) over() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// grantedWithin reports whether the lock is granted within d. It is not if the server refuses or is unavailable.
func (w *wait) grantedWithin(d time.Duration) bool {
	select {
	case <-w.done:
		return w.err == nil
	case <-w.ctx.Done():
		w.must(context.Cause(w.ctx))
	case <-time.After(d):
	}
	return false
}

// givesUp ends the wait.
func (w *wait) givesUp() {
	w.cancel()
	<-w.done
	if w.err == nil {
		return // it was granted at the last moment
	}
	w.says("gives up: it has not got the lock")
}

// grantedWrongly reports whether the lock is granted where it must not be. A broken lock has as much time as it needs,
// so that it also fails on a busy machine. Holdfast's has d.
func (w *wait) grantedWrongly(d time.Duration) bool {
	if !w.holdfast {
		d = patience
	}
	return w.grantedWithin(d)
}

// triesWrongly requests the lock where it must not be granted, and gives up after d. It reports whether the player
// acquired the lock.
func (p *player) triesWrongly(d time.Duration) bool {
	w := p.asks()
	if !w.grantedWrongly(d) {
		w.givesUp()
	}
	return w.err == nil
}

// holds begins to record what the player believes. A separate process records that itself.
func (p *player) holds() {
	p.says("has the lock")
	if p.proc != nil {
		return
	}
	b, ok := believe(p.recorder, p.part, p.hand, func() { p.says("knows that it no longer has the lock") })
	if !ok {
		p.says("knows at once that its time is over")
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.belief = b
}

// stopBelieving ends what the player believes.
func (p *player) stopBelieving() {
	p.mu.Lock()
	b := p.belief
	p.belief = nil
	p.mu.Unlock()
	b.end()
}

// works lets the player do something under its lock.
func (p *player) works(d time.Duration) { p.must(pause(p.ctx, d)) }

// unlocks releases the lock.
func (p *player) unlocks() { p.beginsToUnlock()() }

// beginsToUnlock begins to release the lock. The returned function waits until the release has ended. A failure is only
// reported: a lock that could not be released must not do any harm.
func (p *player) beginsToUnlock() (done func()) {
	p.stopBelieving()
	p.says("releases the lock")
	ended := make(chan struct{})
	p.running.Go(func() {
		defer close(ended)
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		if err := p.hand.release(ctx); err != nil {
			p.says("is not told whether it was released")
		}
	})
	return func() {
		select {
		case <-ended:
		case <-time.After(2 * patience):
			p.must(fmt.Errorf("%s: the release has not ended", p.part.Player))
		}
	}
}

// shop is the writer of the first value of a register.
const shop = "the shop"

// stocks records that a register begins with this value.
func (s *stage) stocks(value uint64) uint64 {
	first := s.recorder.Call(history.Operation{Who: history.Who{Client: shop}, Register: s.lock, Update: true})
	first.Sends("", fmt.Sprint(value))
	first.Wrote()
	return value
}

// reads reads the register.
func (p *player) reads() uint64 {
	p.update = p.recorder.Call(history.Operation{
		Who: p.part.who(), Register: p.part.Lock, Token: p.token(), Update: true,
	})
	value, err := p.reg.read(p.ctx, p.token())
	p.must(err)
	p.value = value
	p.says("reads %d", value)
	return value
}

// writes writes a value that depends on what the player has read, and that no other player writes. It reports whether
// the register accepted it.
func (p *player) writes(value uint64) bool {
	p.update.Sends(fmt.Sprint(p.value), fmt.Sprint(value))
	ok, err := p.reg.write(p.ctx, p.token(), value)
	p.must(err)
	if ok {
		p.update.Wrote()
		p.says("writes %d", value)
	} else {
		p.update.Refused()
		p.says("writes %d, which is refused", value)
	}
	return ok
}

// token returns the token of the player's lock. A separate process knows its own.
func (p *player) token() holdfast.Token {
	if p.hand == nil {
		return 0
	}
	return p.hand.token()
}

// says records a step of the player.
func (p *player) says(format string, args ...any) {
	if !p.quiet {
		p.tell(p.part.Player, format, args...)
	}
}

// The faults of a player's process.
const (
	killed  = "killed"
	stopped = "stopped"
)

// dies kills the player's process.
func (p *player) dies() {
	p.breaks(killed, p.part.Player, "kill -9 %s", p.part.Player)
	p.must(p.proc.Kill())
}

// isStopped stops the player's process, until goesOn.
func (p *player) isStopped() (goesOn func()) {
	ended := p.breaks(stopped, p.part.Player, "SIGSTOP: the process of %s stands still", p.part.Player)
	p.must(child.Pause(p.proc.Cmd.Process))
	return func() {
		p.tell("", "SIGCONT: %s goes on, and does not know that time has passed", p.part.Player)
		ended()
		p.must(child.Resume(p.proc.Cmd.Process))
	}
}

// holdBack holds these flows of all the player's connections back, until the returned function is called.
func (p *player) holdBack(flows proxy.Flow, what string) (release func()) {
	ended := p.breaks("held back", p.part.Player, "the network holds back %s", what)
	deliver := onAll(p.links, func(link *proxy.Proxy) func() { return link.Hold(flows) })
	return func() {
		p.tell("", "the network delivers %s", what)
		ended()
		deliver()
	}
}

// isCutOff cuts the player's connections to the servers with these indices, or to all, until the returned function is
// called.
func (p *player) isCutOff(from ...int) (mend func()) {
	if len(from) == 0 {
		for i := range p.links {
			from = append(from, i)
		}
	}
	connect := onAll(from, func(i int) func() { return p.links[i].Cut() })
	ended := p.breaks("cut off", p.part.Player, "%s is cut off from %s", p.part.Player, nodes(from, len(p.links)))
	return func() {
		p.tell("", "%s is connected again", p.part.Player)
		ended()
		connect()
	}
}

// onAll begins a fault on each of these and returns the function that ends it on all.
func onAll[T any](all []T, begin func(T) (end func())) (end func()) {
	var ends []func()
	for _, one := range all {
		ends = append(ends, begin(one))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// nodes names servers.
func nodes(some []int, all int) string {
	if len(some) == all {
		return "the server"
	}
	text := "nodes"
	for _, i := range some {
		text += fmt.Sprint(" ", i+1)
	}
	return text
}

// held returns how many bytes of these flows are held back.
func (p *player) held(flows proxy.Flow) (total int) {
	for _, link := range p.links {
		total += link.Held(flows)
	}
	return total
}

// leave ends the player.
func (p *player) leave() error {
	var errs []error
	if p.hand != nil {
		errs = append(errs, p.hand.close())
	}
	if c, ok := p.reg.(interface{ close() error }); ok && p.proc == nil {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// A gate is a point between two steps of a broken lock, at which its client is stopped until the gate is opened. A lock
// without such a point never reaches it.
type gate struct {
	arrive, open sync.Once
	arrived      chan struct{}
	opened       chan struct{}
}

// stopsBetween is a change of a player's part: its lock has this gate.
func stopsBetween(g *gate) func(*part) { return func(p *part) { p.between = g } }

func newGate() *gate { return &gate{arrived: make(chan struct{}), opened: make(chan struct{})} }

// pass waits at the gate until it is opened.
func (g *gate) pass(ctx context.Context) error {
	if g == nil {
		return nil
	}
	g.arrive.Do(func() { close(g.arrived) })
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// opens lets the client pass, now and later.
func (g *gate) opens() { g.open.Do(func() { close(g.opened) }) }
