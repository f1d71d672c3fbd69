package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func TestCloseReleasesEverything(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, other := r.client(), r.client()
		var leases []*holdfast.Lease
		for i := range 200 {
			leases = append(leases, r.lock(c.Mutex(fmt.Sprint(i)).Lock))
		}
		r.lock(other.Mutex("taken").Lock)
		waiter := r.begin(c.Mutex("taken").Lock)
		r.must(c.Close())
		if synctest.Wait(); !waiter.done() || !errors.Is(waiter.err, holdfast.ErrClosed) {
			t.Fatal("a waiter did not return with ErrClosed")
		}
		for _, l := range leases {
			if !errors.Is(l.Err(), holdfast.ErrClosed) || !errors.Is(l.Unlock(t.Context()), holdfast.ErrClosed) {
				t.Fatalf("a lease says %v", l.Err())
			}
		}
		for i := range 200 {
			r.lock(other.Mutex(fmt.Sprint(i)).TryLock)
		}
		if queue, err := other.Inspect(t.Context(), "taken"); err != nil || len(queue.Entries) != 1 {
			t.Fatalf("the waiter's claim: %+v, %v", queue, err)
		}
		if err := c.Close(); err != nil {
			t.Fatalf("a second Close: %v", err)
		}
	})
}

func TestUseAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		m := c.Mutex("x")
		c.Close()
		_, lock := m.Lock(t.Context())
		_, inspect := m.Inspect(t.Context())
		var names error
		for _, err := range c.Names(t.Context(), "") {
			names = err
		}
		for what, err := range map[string]error{
			"Lock": lock, "Inspect": inspect, "Names": names,
			"Break": c.Break(t.Context(), "x", 1<<8),
			"Do":    m.Do(t.Context(), func(context.Context) error { return nil }),
		} {
			if !errors.Is(err, holdfast.ErrClosed) {
				t.Errorf("%s: got %v", what, err)
			}
		}
	})
}

func TestCloseWhileTheStoreIsSilentIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		for i := range 200 {
			r.lock(c.Mutex(fmt.Sprint(i)).Lock)
		}
		link.HoldRequests()
		began := time.Now()
		c.Close()
		if took := time.Since(began); took > 6*time.Second {
			t.Fatalf("it took %v", took)
		}
	})
}

func TestCloseTakesBackALockThatIsJustBeingTaken(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		release := link.HoldReplies()
		late := r.begin(c.Mutex("x").Lock)
		closed := make(chan struct{})
		go func() { c.Close(); close(closed) }()
		synctest.Wait()
		release()
		<-closed
		if synctest.Wait(); !late.done() || !errors.Is(late.err, holdfast.ErrClosed) {
			t.Fatalf("got %v", late.err)
		}
		r.lock(r.client().Mutex("x").TryLock)
	})
}

// TestSecondCloseWaitsForTheFirst checks that the locks are released when any Close has returned.
func TestSecondCloseWaitsForTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.around(&detour{leave: func(context.Context, store.Claim) error {
			time.Sleep(time.Second) // a slow store
			return nil
		}})
		r.lock(c.Mutex("x").Lock)
		go c.Close()
		synctest.Wait()
		c.Close()
		r.nothingLeft("x")
	})
}

// TestCloseDuringAJoinWithoutAResponse checks that a claim whose Join has no response is removed: it may be in the
// queue.
func TestCloseDuringAJoinWithoutAResponse(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		land := make(chan struct{})
		lost := errors.New("the answer was lost")
		c := r.around(&detour{joined: func(store.Claim, *store.Status) error {
			<-land
			return &store.Fault{Store: "it", Err: lost}
		}})
		unknown := r.begin(c.Mutex("x").Lock)
		closed := make(chan struct{})
		go func() { c.Close(); close(closed) }()
		synctest.Wait()
		close(land)
		<-closed
		if synctest.Wait(); !errors.Is(unknown.err, lost) && !errors.Is(unknown.err, holdfast.ErrClosed) {
			t.Errorf("got %v", unknown.err)
		}
		r.nothingLeft("x")
	})
}

// TestCloseWaitsForAnUnlockThatIsUnderWay, and does not begin it again.
func TestCloseWaitsForAnUnlockThatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		answer := make(chan struct{})
		d := &detour{leave: func(context.Context, store.Claim) error {
			<-answer
			return errDown
		}}
		c := r.around(d)
		l := r.lock(c.Mutex("x").Lock)
		unlocked, closed := make(chan error, 1), make(chan struct{})
		go func() { unlocked <- l.Unlock(t.Context()) }()
		synctest.Wait()
		go func() { c.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("it did not wait")
		default:
		}
		close(answer)
		<-closed
		if err := <-unlocked; !errors.Is(err, errDown) {
			t.Errorf("Unlock: %v", err)
		}
		if synctest.Wait(); d.leaves.Load() != 1 {
			t.Errorf("%d leaves", d.leaves.Load())
		}
	})
}
