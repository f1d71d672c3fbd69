package frame

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Doubts is the set of claims whose status may have changed, according to events of the server. They are inspected
// soon, all with one call. If that fails, they are inspected again after a pause. C identifies a claim in the store.
type Doubts[C comparable] struct {
	DoubtsConfig[C]
	frame  *Frame
	rounds *Rounds

	claims     map[C]struct{} // to be inspected
	inspecting map[C]struct{} // being inspected
}

// A DoubtsConfig has what Doubts needs from a store.
type DoubtsConfig[C comparable] struct {
	// Mutex is the store's own. It guards the Doubts too.
	Mutex *Mutex

	// Limit bounds one call of Inspect. It is set before the first Add.
	Limit time.Duration

	// Inspect determines the status of claims. If it returns an error, it is called again for the same claims. It runs
	// in one goroutine at a time.
	Inspect func(ctx context.Context, claims []C) error
}

// retryPause is how long after a failure claims are inspected again.
const retryPause = 50 * time.Millisecond

// NewDoubts returns an empty set for a store.
func NewDoubts[C comparable](f *Frame, config DoubtsConfig[C]) *Doubts[C] {
	d := &Doubts[C]{DoubtsConfig: config, frame: f, claims: map[C]struct{}{}}
	d.rounds = NewRounds(f, d.inspect)
	return d
}

// Add requests that c is inspected soon. Mutex must be locked.
func (d *Doubts[C]) Add(c C) {
	d.claims[c] = struct{}{}
	d.rounds.Request()
}

// Await waits until all claims that were added before the call have been inspected once. It returns the error of
// Inspect or of ctx.
func (d *Doubts[C]) Await(ctx context.Context) error { return d.rounds.Request().Await(ctx) }

// Remove removes c, because it is gone or is known to hold. Mutex must be locked.
func (d *Doubts[C]) Remove(c C) {
	delete(d.claims, c)
	delete(d.inspecting, c)
}

// inspect calls Inspect for all claims in the set, and puts them back if that fails.
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
