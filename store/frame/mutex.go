package frame

import (
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// A Mutex guards what a store knows. Pushes that arise while it is locked are delivered when it has been unlocked: the
// client may call the store as soon as it gets one.
type Mutex struct {
	frame  *Frame
	mu     sync.Mutex
	pushes []push
}

type push struct {
	id     store.ID
	status store.Status
}

// NewMutex returns a mutex whose pushes go to the client of f.
func NewMutex(f *Frame) *Mutex { return &Mutex{frame: f} }

// Lock locks m.
func (m *Mutex) Lock() { m.mu.Lock() }

// Push delivers a push when m, which must be locked, is unlocked.
func (m *Mutex) Push(id store.ID, status store.Status) {
	m.pushes = append(m.pushes, push{id, status})
}

// Unlock unlocks m, and delivers the pushes that have arisen.
func (m *Mutex) Unlock() {
	pushes := m.pushes
	m.pushes = nil
	m.mu.Unlock()
	for _, p := range pushes {
		m.frame.Push(p.id, p.status)
	}
}
