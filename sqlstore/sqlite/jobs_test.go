package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
)

// poison has an engine serve two calls in one transaction: join, and one that the database cannot do.
func poison(t *testing.T, e *engine, join func() error) (joined <-chan error) {
	t.Helper()
	release := occupy(t, e)
	answer := make(chan error, 1)
	go func() { answer <- join() }()
	waitForJobs(t, e, 1)
	go func() {
		_, _ = ask(t.Context(), e, func(*transaction) (int, error) { return 0, errors.New("poison") })
	}()
	waitForJobs(t, e, 2)
	release()
	return answer
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
	joined := poison(t, e, func() error { _, err := e.Join(t.Context(), c); return err })
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
	s := sqlstore.New(e)
	other, waits := visit(t, path), make(chan struct{})
	connected.do(func() { occupied(t, other); again.do(func() { close(waits) }) })
	c := newClaim("good")
	joined := poison(t, e, func() error { _, err := s.Join(t.Context(), *c); return err })
	<-waits
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Close waits")
	}
	if err := <-joined; !errors.Is(err, store.ErrClosed) {
		t.Errorf("the call under way: %v", err)
	}
}

// TestGoneWhileBusy: a call whose context was done before the file was free does not happen any more, also if others
// still waited for the file.
func TestGoneWhileBusy(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	leave := occupied(t, visit(t, path))
	stays := make(chan error, 1)
	go func() { _, err := e.Names(t.Context(), ""); stays <- err }()
	waitForJobs(t, e, 1)
	ctx, cancel := context.WithCancel(t.Context())
	goes, c := make(chan error, 1), newClaim("x")
	go func() { _, err := e.Join(ctx, c); goes <- err }()
	waitForJobs(t, e, 2)
	cancel()
	if err := <-goes; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	leave()
	if err := <-stays; err != nil {
		t.Fatal(err)
	}
	if n := countRows(t, path, "holdfast_claims"); n != 0 {
		t.Error("it joined")
	}
}
