package testkit

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Strikes injects faults while one client holds a lock, beside those of the scene's processes, and a second client
// waits for it.
type Strikes struct {
	Lost int // how often the clients have lost the lock

	scene       *Scene
	journal     *Journal
	first, next *holdfast.Client
}

// NewStrikes opens the two clients.
func (s *Scene) NewStrikes(first, next string) *Strikes {
	s.Helper()
	k := &Strikes{scene: s, journal: NewJournal(s.T, s.Dir, "sat on")}
	k.journal.Retry = true
	k.first, k.next = k.journal.Open(first), k.journal.Open(next)
	return k
}

// Strike injects a fault, and returns when all goroutines of the scene have acquired a lock again and both clients are
// done.
func (k *Strikes) Strike(name string, fault func()) {
	s := k.scene
	s.Helper()
	began := time.Now()
	held := k.journal.Take(k.first)
	granted := make(chan *Hold, 1)
	go func() { granted <- k.takeNext() }()
	fault()
	s.Through()
	k.release(held)
	if second := <-granted; second != nil {
		k.release(second)
	}
	s.Logf("%s: over after %v", name, time.Since(began).Round(time.Millisecond))
}

// release releases the lock, which may have been lost.
func (k *Strikes) release(h *Hold) {
	h.End()
	switch err := h.Unlock(k.scene.Context()); {
	case errors.Is(err, holdfast.ErrLost):
		k.Lost++
	case err != nil && !Passes(err):
		k.scene.Error(err)
	}
}

// takeNext waits until the second client acquires the lock. It returns nil after an error that has no excuse.
func (k *Strikes) takeNext() *Hold {
	for ctx := k.scene.Within(); ; {
		h, err := k.journal.TryTake(ctx, k.next)
		switch {
		case err == nil:
			return h
		case ctx.Err() != nil || !Passes(err):
			k.scene.Error(err)
			return nil
		}
	}
}

// Close closes the two clients.
func (k *Strikes) Close() error { return errors.Join(k.first.Close(), k.next.Close()) }
