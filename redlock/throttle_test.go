package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestThrottle: fewer are let in when nodes are slow, down to one, and more when they are not. Turns are in order, and
// nobody waits for longer than it may, or is in the way of others when it does not wait any more.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := throttle{limit: maxJoins}
		for range maxJoins {
			if err := th.enter(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if err := th.enter(t.Context(), time.Second); !errors.Is(err, errCrowded) {
			t.Fatalf("one too many: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := th.enter(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("one with a deadline: %v", err)
		}
		for range maxJoins {
			th.leave(true)
		}
		var order []int
		turns := make(chan int)
		for i := range 3 {
			go func() {
				if err := th.enter(t.Context(), time.Hour); err != nil {
					t.Error(err)
				}
				turns <- i
			}()
			synctest.Wait()
		}
		for range 3 {
			order = append(order, <-turns)
			if synctest.Wait(); th.inFlight != 1 {
				t.Fatalf("%d are in progress at slow nodes", th.inFlight)
			}
			th.leave(true)
		}
		if order[0] != 0 || order[1] != 1 || order[2] != 2 {
			t.Errorf("the turns were %v", order)
		}
		for range maxJoins * maxJoins {
			if err := th.enter(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			th.leave(false)
		}
		if th.limit != maxJoins || th.inFlight != 0 || len(th.queue) != 0 {
			t.Errorf("in the end the limit is %d, with %d in progress and %d that wait", th.limit, th.inFlight,
				len(th.queue))
		}
	})
}
