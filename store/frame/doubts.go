package frame

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Doubts are claims that something may have happened to, as the events of a server tell. They are inspected soon, all
// that there are at once, and again a while later if that fails. C is what the store knows a claim by.
type Doubts[C comparable] struct {
	DoubtsConfig[C]
	frame  *Frame
	rounds *Rounds

	claims     map[C]struct{} // to be inspected
	inspecting map[C]struct{} // being inspected
}

// A DoubtsConfig is what Doubts has to know of a store.
type DoubtsConfig[C comparable] struct {
	// Mutex is the store's own. It guards the Doubts too.
	Mutex *Mutex

	// Limit is how long a look may take. It is set before the first Add.
	Limit time.Duration

	// Inspect determines the status of claims. It runs in one goroutine at a time.
	Inspect func(ctx context.Context, claims []C) error
}

// retryPause is how long after a failure claims are inspected again.
const retryPause = 50 * time.Millisecond

// NewDoubts returns the doubts of a store, of which there are none yet.
func NewDoubts[C comparable](f *Frame, config DoubtsConfig[C]) *Doubts[C] {
	d := &Doubts[C]{DoubtsConfig: config, frame: f, claims: map[C]struct{}{}}
	d.rounds = NewRounds(f, d.inspect)
	return d
}

// Add has c inspected soon. Mutex must be locked.
func (d *Doubts[C]) Add(c C) {
	d.claims[c] = struct{}{}
	d.rounds.Request()
}

// Await waits until everything that was added before has been inspected.
func (d *Doubts[C]) Await(ctx context.Context) error { return d.rounds.Request().Await(ctx) }

// Remove has c not be inspected: it is gone, or is known to hold. Mutex must be locked.
func (d *Doubts[C]) Remove(c C) {
	delete(d.claims, c)
	delete(d.inspecting, c)
}

func (d *Doubts[C]) inspect() error {
	d.Mutex.Lock()
	d.inspecting, d.claims = d.claims, map[C]struct{}{}
	claims := slices.Collect(maps.Keys(d.inspecting))
	d.Mutex.Unlock()
	ctx, cancel := context.WithTimeout(d.frame.Life(), d.Limit)
	defer cancel()
	err := d.Inspect(ctx, claims)
	if err == nil || d.frame.Life().Err() != nil {
		return err
	}
	d.Mutex.Lock()
	defer d.Mutex.Unlock()
	maps.Copy(d.claims, d.inspecting)
	time.AfterFunc(retryPause, func() { d.rounds.Request() })
	return err
}
