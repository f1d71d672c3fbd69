package frame

import (
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// A Mutex guards the state of a store. Pushes that are requested while it is locked are delivered after it is unlocked:
// the client may call the store from within a push.
type Mutex struct {
	frame  *Frame
	mu     sync.Mutex
	pushes []push
}

type push struct {
	id     store.ID
	status store.Status
}

// NewMutex returns a Mutex that delivers pushes through f.
func NewMutex(f *Frame) *Mutex { return &Mutex{frame: f} }

// Lock locks m.
func (m *Mutex) Lock() { m.mu.Lock() }

// Push delivers a push as soon as m is unlocked. m must be locked.
func (m *Mutex) Push(id store.ID, status store.Status) {
	m.pushes = append(m.pushes, push{id, status})
}

// Unlock unlocks m, and delivers the pushes that were requested while it was locked.
func (m *Mutex) Unlock() {
	pushes := m.pushes
	m.pushes = nil
	m.mu.Unlock()
	for _, p := range pushes {
		m.frame.Push(p.id, p.status)
	}
}
