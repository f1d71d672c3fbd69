package sqlite

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// TestDeadlineIsNeverBeforeUntil: a call can come after a transaction has begun and still be served by it. Its ttl
// counts from after it was sent, or its client would believe for longer than the file.
func TestDeadlineIsNeverBeforeUntil(t *testing.T) {
	var beginning trap
	var late atomic.Int64 // how long the worker did not get to run
	e := open(t, newPath(t), begun(&beginning), func(e *engine) {
		now := e.clock.now
		e.clock.now = func() time.Duration { return now() + time.Duration(late.Load()) }
	})
	s := newStore(e)
	defer s.Close()

	reached, goOn := beginning.hold(t)
	first := later(func() error { _, err := e.Names(t.Context(), ""); return err })
	<-reached
	late.Store(int64(time.Hour))
	c := newClaim("x")
	var status store.Status
	joined := later(func() (err error) { status, err = s.Join(t.Context(), *c); return err })
	waitForJobs(t, e, 2)
	goOn()
	check(t, <-first)
	check(t, <-joined)
	l, err := e.Queue(t.Context(), "x")
	if err != nil || len(l.Entries) != 1 {
		t.Fatalf("the line has %d places, %v", len(l.Entries), err)
	}
	if left := time.Until(status.Until); left > l.Entries[0].Left {
		t.Errorf("the client believes in %v, the file only in %v", left, l.Entries[0].Left)
	}
}
