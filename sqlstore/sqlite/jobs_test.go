package sqlite

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// later does something while the test goes on.
func later(do func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return done
}

func joinLater(ctx context.Context, e *engine, c *store.Claim) <-chan error {
	return later(func() error { _, err := e.Join(ctx, c); return err })
}

var errPoison = errors.New("poison")

// poison has an engine serve two calls in one transaction: Join, and one that the database cannot do.
func poison(t *testing.T, e *engine, c *store.Claim) (joined, poisoned <-chan error) {
	t.Helper()
	release := occupy(t, e)
	joined = joinLater(t.Context(), e, c)
	waitForJobs(t, e, 1)
	poisoned = later(func() error {
		_, err := write(t.Context(), e, func(*transaction) (int, error) { return 0, errPoison })
		return err
	})
	waitForJobs(t, e, 2)
	release()
	return joined, poisoned
}

// TestOnePoisonedJob: a call that the database cannot do fails alone, not the others of its transaction.
func TestOnePoisonedJob(t *testing.T) {
	e := open(t, newPath(t))
	c := newClaim("good")
	joined, poisoned := poison(t, e, c)
	check(t, <-joined)
	if err := <-poisoned; !errors.Is(err, errPoison) {
		t.Errorf("the poisoned: %v", err)
	}
	join(t, e, c, store.Held)
}

// TestPoisonWhileBusy: what shared a transaction with a poisoned call is done again, and waits for its turn if another
// program writes by then.
func TestPoisonWhileBusy(t *testing.T) {
	path := newPath(t)
	var again trap
	e := open(t, path, readingClock(&again))
	c := newClaim("good")
	other := visit(t, path)
	connected.do(func() { again.do(occupied(t, other)) }) // busy when it is opened anew, free when it is tried again
	joined, _ := poison(t, e, c)
	if err := <-joined; err != nil {
		t.Errorf("the good one: %v", err)
	}
	wantState(t, path, c, store.Held)
}

// TestCloseAfterPoison: Close does not wait until the file is free for what is to be done again.
func TestCloseAfterPoison(t *testing.T) {
	path := newPath(t)
	var again trap
	e := open(t, path, readingClock(&again))
	other, waits := visit(t, path), make(chan struct{})
	connected.do(func() { occupied(t, other); again.do(func() { close(waits) }) })
	joined, _ := poison(t, e, newClaim("good"))
	<-waits
	closes(t, e, joined)
}

// TestGoneWhileBusy: a call whose context was done before the file was free does not happen any more, also if others
// still waited for the file.
func TestGoneWhileBusy(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	leave := occupied(t, visit(t, path))
	stays := later(func() error { _, err := e.Names(t.Context(), ""); return err })
	waitForJobs(t, e, 1)
	ctx, cancel := context.WithCancel(t.Context())
	goes := joinLater(ctx, e, newClaim("x"))
	waitForJobs(t, e, 2)
	cancel()
	if err := <-goes; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	leave()
	check(t, <-stays)
	wantRows(t, path, 0, "holdfast_claims")
}
