package testkit

import "sync"

// A Valve is passed by the events that a server sends by itself, where those share a connection with responses, so that
// a proxy can't tell them apart. Its zero value is open.
type Valve struct {
	mu       sync.Mutex
	holds    int
	drops    bool
	heldBack []func()
}

// Pass delivers an event, now or when the valve is open, or drops it. Deliveries come one after another.
func (v *Valve) Pass(deliver func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.drops:
	case v.holds > 0:
		v.heldBack = append(v.heldBack, deliver)
	default:
		deliver()
	}
}

// Hold holds events back until release.
func (v *Valve) Hold() (release func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.holds++
	return sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.holds--; v.holds == 0 {
			for _, deliver := range v.heldBack {
				deliver()
			}
			v.heldBack = nil
		}
	})
}

// Drop drops events from now on, or delivers them again.
func (v *Valve) Drop(on bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drops = on
}

// ValvedLinks are Links whose pushes pass a Valve.
type ValvedLinks struct {
	Links
	Valve *Valve
}

// HoldPushes implements storetest.Link.
func (l ValvedLinks) HoldPushes() (release func()) { return l.Valve.Hold() }

// DropPushes implements storetest.Link.
func (l ValvedLinks) DropPushes(on bool) { l.Valve.Drop(on) }
