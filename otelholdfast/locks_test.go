package otelholdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// locks runs a test with a server and an observed client of it, in fake time.
func locks(t *testing.T, test func(t *testing.T, r *rig, s *memstore.Server, c *holdfast.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r, server := newRig(t), memstore.NewServer()
		c := holdfast.New(server.Connect(), holdfast.WithObserver(r.observer))
		defer c.Close()
		test(t, r, server, c)
	})
}

func TestLockAndUnlock(t *testing.T) {
	locks(t, func(t *testing.T, r *rig, s *memstore.Server, c *holdfast.Client) {
		other := holdfast.New(s.Connect(), holdfast.WithLabel("nightly"))
		defer other.Close()
		theirs := testkit.Lock(t, other, "job")
		if _, err := c.Mutex("job").TryLock(t.Context()); !errors.Is(err, holdfast.ErrLocked) {
			t.Fatal(err)
		}
		if _, err := c.Mutex("job", holdfast.WithWait(time.Second)).Lock(t.Context()); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.AfterFunc(2*time.Second, func() {
			testkit.Check(t, theirs.Unlock(context.Background()))
		})
		ctx, parent := r.tracers.Tracer("test").Start(t.Context(), "caller")
		lease, err := c.Mutex("job").Lock(ctx)
		testkit.Must(t, err)
		r.wantSome(map[string]string{"leases{op=lock store=memory}": "1"})
		inLease := trace.SpanContextFromContext(lease.Context())
		time.Sleep(3 * time.Second)
		testkit.Must(t, lease.Unlock(ctx))
		parent.End()

		r.wantSome(map[string]string{
			"wait.duration{op=trylock outcome=locked store=memory}": "1 in 0s",
			"wait.duration{op=lock outcome=timeout store=memory}":   "1 in 1s",
			"wait.duration{op=lock outcome=granted store=memory}":   "1 in 2s",
			"hold.duration{op=lock outcome=released store=memory}":  "1 in 3s",
			"leases{op=lock store=memory}":                          "0",
			"waiters{op=lock store=memory}":                         "0",
			"losses{op=lock store=memory}":                          "",
		})
		hold := r.span("holdfast.hold")
		if !hold.SpanContext().Equal(inLease) {
			t.Error("the lease's context does not have the span of the hold")
		}
		if !hold.Parent().Equal(parent.SpanContext()) || len(hold.Links()) != 1 {
			t.Errorf("the hold has parent %v and links %v", hold.Parent(), hold.Links())
		}
		r.wantAttributes("the hold", hold.Attributes(), map[string]string{
			"name": "job", "op": "lock", "store": "memory", "shared": "false", "outcome": "released",
			"token": lease.Token().String(),
		})
		waits := 0
		for _, s := range r.spans.Ended() {
			if s.Name() != "holdfast.wait" {
				continue
			}
			waits++
			if s.Status().Code != codes.Unset {
				t.Errorf("contention is an error: %v", s.Attributes())
			}
		}
		if waits != 3 {
			t.Errorf("%d waits have a span, want 3", waits)
		}
	})
}

func TestLoss(t *testing.T) {
	locks(t, func(t *testing.T, r *rig, s *memstore.Server, c *holdfast.Client) {
		lease := testkit.Lock(t, c, "job")
		time.Sleep(time.Minute)
		before := r.metrics()
		if before["renewals{outcome=ok store=memory}"] == "" ||
			before["renewal.duration{outcome=ok store=memory}"] == "" {
			t.Errorf("a minute without renewals: %v", before)
		}
		s.Restart(false)
		<-lease.Context().Done()
		synctest.Wait() // the goroutine that ended the context notifies the observer next
		if err := lease.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Fatal(err)
		}
		r.wantSome(map[string]string{
			"hold.duration{op=lock outcome=lost store=memory}":     "1 in 1m0s",
			"hold.duration{op=lock outcome=released store=memory}": "",
			"losses{op=lock store=memory}":                         "1",
			"leases{op=lock store=memory}":                         "0",
		})
		if status := r.span("holdfast.hold").Status(); status.Code != codes.Error {
			t.Errorf("the span of a lost lease has the status %v", status)
		}
	})
}

// TestJeopardy cuts the client off until its lease runs out.
func TestJeopardy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, pipe := newRig(t), storetest.NewPipe()
		c := holdfast.New(memstore.NewServer().Connect(memstore.WithNetwork(pipe)), holdfast.WithObserver(r.observer))
		defer c.Close()
		defer pipe.Kill()
		lease := testkit.Lock(t, c, "job")
		pipe.Cut()
		<-lease.Context().Done()
		synctest.Wait()
		got := r.metrics()
		for _, name := range []string{
			"jeopardies{store=memory}", "renewals{outcome=error store=memory}", "losses{op=lock store=memory}",
		} {
			if got[name] == "" {
				t.Errorf("no %s: %v", name, got)
			}
		}
		events := r.span("holdfast.hold").Events()
		if len(events) == 0 || events[0].Name != "holdfast.jeopardy" {
			t.Errorf("the span of the lease has the events %v", events)
		}
	})
}

func TestClose(t *testing.T) {
	locks(t, func(t *testing.T, r *rig, _ *memstore.Server, c *holdfast.Client) {
		_, err := c.RWMutex("job").RLock(t.Context())
		testkit.Must(t, err)
		testkit.Must(t, c.Close())
		r.wantSome(map[string]string{"hold.duration{op=rlock outcome=closed store=memory}": "1 in 0s"})
		if status := r.span("holdfast.hold").Status(); status.Code != codes.Unset {
			t.Errorf("the span of a closed lease has the status %v", status)
		}
	})
}

func TestDowngrade(t *testing.T) {
	locks(t, func(t *testing.T, r *rig, _ *memstore.Server, c *holdfast.Client) {
		writer, err := c.RWMutex("job").Lock(t.Context())
		testkit.Must(t, err)
		reader, err := writer.Downgrade(writer.Context())
		testkit.Must(t, err)
		testkit.Must(t, reader.Unlock(t.Context()))
		links := 0
		for _, s := range r.spans.Ended() {
			links += len(s.Links())
		}
		if n := len(r.spans.Ended()); n != 3 || links != 1 {
			t.Errorf("%d spans and %d links, want a wait and two holds, of which one is linked", n, links)
		}
		for name, value := range r.metrics() {
			if name[:3] == "lea" && value != "0" {
				t.Errorf("%s is %s after the end", name, value)
			}
		}
	})
}

// TestHandOver passes a lock on inside the process: that is a wait and a lease of its own.
func TestHandOver(t *testing.T) {
	locks(t, func(t *testing.T, r *rig, _ *memstore.Server, c *holdfast.Client) {
		first := testkit.Lock(t, c, "job")
		go func() {
			second, err := c.Mutex("job").Lock(t.Context())
			if err == nil {
				err = second.Unlock(t.Context())
			}
			testkit.Check(t, err)
		}()
		synctest.Wait()
		testkit.Must(t, first.Unlock(t.Context()))
		synctest.Wait()
		r.wantSome(map[string]string{
			"handovers{op=lock store=memory}":                      "1",
			"wait.duration{op=lock outcome=granted store=memory}":  "2 in 0s",
			"hold.duration{op=lock outcome=released store=memory}": "2 in 0s",
			"leases{op=lock store=memory}":                         "0",
		})
	})
}

// TestFixedTTL lets a lease reach the end that it was given.
func TestFixedTTL(t *testing.T) {
	locks(t, func(t *testing.T, r *rig, _ *memstore.Server, c *holdfast.Client) {
		lease := testkit.Lock(t, c, "job", holdfast.WithFixedTTL(time.Minute))
		<-lease.Context().Done()
		synctest.Wait()
		r.wantSome(map[string]string{"hold.duration{op=lock outcome=lost store=memory}": "1 in 1m0s"})
	})
}

// TestDeadlock lets two wait for what the other holds.
func TestDeadlock(t *testing.T) {
	locks(t, func(t *testing.T, r *rig, _ *memstore.Server, c *holdfast.Client) {
		cross := func(first, second string) error {
			return c.Mutex(first).Do(t.Context(), func(ctx context.Context) error {
				time.Sleep(time.Millisecond) // in fake time: the other holds its lock by then
				return c.Mutex(second).Do(ctx, func(context.Context) error { return nil })
			})
		}
		other := make(chan error)
		go func() { other <- cross("b", "a") }()
		err := errors.Join(cross("a", "b"), <-other)
		if !errors.Is(err, holdfast.ErrDeadlock) {
			t.Fatal(err)
		}
		got := r.metrics()
		if n := got["deadlocks{op=lock store=memory}"]; n != "1" {
			t.Errorf("%s deadlocks, want 1", n)
		}
		if got["wait.duration{op=lock outcome=deadlock store=memory}"] == "" {
			t.Errorf("no wait ended in a deadlock: %v", got)
		}
		failed := 0
		for _, s := range r.spans.Ended() {
			if s.Status().Code == codes.Error {
				failed++
			}
		}
		if failed != 1 {
			t.Errorf("%d spans failed, want that of the victim's wait", failed)
		}
	})
}
