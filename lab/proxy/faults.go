package proxy

import (
	"sync"
	"time"
)

// A Flow is what passes through the proxy: requests of clients, and what the server sends. Flows are combined with |.
type Flow uint8

// The flows. Where replies and pushes share a connection they cannot be told apart: then a fault that holds or delays
// one of them does it to both, and one that loses only one of them loses neither.
const (
	Requests Flow = 1 << iota // what clients send
	Replies                   // what the server sends, to connections that carry replies
	Pushes                    // what the server sends, to connections that carry pushes
	OnlyNew                   // not a flow of its own: the fault spares existing connections

	Down = Replies | Pushes // everything that the server sends
	All  = Requests | Down  // everything
)

type faultKind uint8

const (
	holding faultKind = iota
	silencing
	delaying
	refusing
)

// A fault is something that the proxy does until it is ended.
type fault struct {
	kind  faultKind
	flows Flow
	after uint64 // it spares the connections up to this one
	delay time.Duration
}

// Hold holds bytes of these flows back until release. They are delivered when release returns, unless another fault
// holds them or the receiver does not read.
func (p *Proxy) Hold(flows Flow) (release func()) {
	end := p.begin(&fault{kind: holding, flows: flows})
	return func() {
		end()
		p.drain()
	}
}

// Silence discards bytes of these flows. Connections stay open, and new ones are accepted. Those that have lost bytes
// are closed when the fault ends.
func (p *Proxy) Silence(flows Flow) (end func()) {
	return p.begin(&fault{kind: silencing, flows: flows})
}

// Delay delivers bytes of these flows later by d. Bytes that are under way when it ends are still delayed.
func (p *Proxy) Delay(flows Flow, d time.Duration) (end func()) {
	return p.begin(&fault{kind: delaying, flows: flows, delay: d})
}

// LoseReplies forwards the next n requests and discards the responses. A request is anything that a client sends on a
// connection that has not lost anything yet. Such a connection stays silent until its client closes it, or Heal or the
// end of another fault does.
func (p *Proxy) LoseReplies(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toLose = n
}

// Mute discards all that the server sends from now on, on the connections that there are. They stay silent until their
// client closes them, or Heal or the end of another fault does. New ones work.
func (p *Proxy) Mute() {
	p.settle()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.down.hole = true
	}
}

// CloseAll breaks all connections. What was held back on them is lost. New ones are accepted.
func (p *Proxy) CloseAll() {
	p.settle()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeConnections()
}

// Refuse breaks new connections as soon as they are made. Existing ones continue.
func (p *Proxy) Refuse() (end func()) {
	p.settle()
	return p.begin(&fault{kind: refusing})
}

// Cut breaks all connections, and new ones as soon as they are made. What was held back is lost.
func (p *Proxy) Cut() (mend func()) {
	mend = p.begin(&fault{kind: refusing})
	p.mu.Lock()
	p.closeConnections()
	p.mu.Unlock()
	p.settle() // an earlier connection must not be accepted after mend
	return mend
}

// Heal ends all faults. Bytes that were held back are delivered, and connections that have lost bytes are closed.
func (p *Proxy) Heal() {
	p.mu.Lock()
	clear(p.faults)
	p.toLose = 0
	p.mend()
	p.mu.Unlock()
	p.drain()
}

func (p *Proxy) begin(f *fault) (end func()) {
	if f.flows&OnlyNew != 0 {
		p.settle()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.flows&OnlyNew != 0 {
		f.after = p.accepted
	}
	p.faults[f] = struct{}{}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if _, on := p.faults[f]; on {
			delete(p.faults, f)
			p.mend()
		}
	})
}

// mend releases what no fault holds any more.
func (p *Proxy) mend() {
	for c := range p.conns {
		for _, s := range c.streams() {
			if s.hole && !p.silences(s) {
				c.close(true)
			}
			s.changed.Broadcast()
		}
	}
}

// drain waits until everything is delivered that was received before and that no fault holds. It waits only for a
// limited time for a receiver that does not read.
func (p *Proxy) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := map[*stream]uint64{}
	for c := range p.conns {
		for _, s := range c.streams() {
			before[s] = s.arrived
		}
	}
	late := false
	alarm := time.AfterFunc(drainPatience, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		late = true
		for s := range before {
			s.changed.Broadcast()
		}
	})
	defer alarm.Stop()
	for s, arrived := range before {
		for s.delivered < arrived && s.flowing() && !late {
			s.changed.Wait()
		}
	}
}

// any reports whether there is a matching fault of this kind.
func (p *Proxy) any(kind faultKind, fits func(*fault) bool) bool {
	for f := range p.faults {
		if f.kind == kind && fits(f) {
			return true
		}
	}
	return false
}

func (p *Proxy) refuses() bool { return p.any(refusing, func(*fault) bool { return true }) }

func (p *Proxy) holds(s *stream) bool { return p.any(holding, s.touchedBy) }

// silences reports whether everything that s carries is discarded. A stream that also carries something else is spared.
func (p *Proxy) silences(s *stream) bool {
	return p.any(silencing, func(f *fault) bool { return s.touchedBy(f) && s.carries&^f.flows == 0 })
}

func (p *Proxy) delays(s *stream) (d time.Duration) {
	for f := range p.faults {
		if f.kind == delaying && s.touchedBy(f) {
			d += f.delay
		}
	}
	return d
}

// touchedBy reports whether a fault affects something that s carries.
func (s *stream) touchedBy(f *fault) bool { return s.conn.number > f.after && s.carries&f.flows != 0 }
