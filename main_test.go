package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// ttl is the ttl of the tests. Other times in them are relative to it.
const ttl = 30 * time.Second

// A rig is a server and its clients, in a bubble of fake time.
type rig struct {
	*testing.T
	server *memstore.Server
}

func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &rig{t, memstore.NewServer()}) })
}

// scene runs f as a subtest in a bubble of its own.
func scene(t *testing.T, name string, f func(t *testing.T, r *rig)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, f) })
}

// client is one more process that uses the server.
func (r *rig) client(options ...holdfast.Option) *holdfast.Client {
	c := holdfast.New(r.server.Connect(), options...)
	r.Cleanup(func() { c.Close() })
	return c
}

// linked is a client behind a link that can fail.
func (r *rig) linked(options ...holdfast.Option) (*holdfast.Client, *storetest.Pipe) {
	pipe := storetest.NewPipe()
	c := holdfast.New(r.server.Connect(memstore.WithNetwork(pipe)), options...)
	r.Cleanup(func() { pipe.Kill(); c.Close() })
	return c, pipe
}

// A locker is anything that Lock is a method value of.
type locker func(context.Context) (*holdfast.Lease, error)

// lock acquires a lock that is free.
func (r *rig) lock(lock locker) *holdfast.Lease {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	return r.lease(lock(ctx))
}

// lease returns the lease of a call that cannot fail.
func (r *rig) lease(l *holdfast.Lease, err error) *holdfast.Lease {
	r.Helper()
	r.must(err)
	return l
}

// must ends the test with an error.
func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// check is must for other goroutines, and for what goes on.
func (r *rig) check(err error) {
	r.Helper()
	if err != nil {
		r.Error(err)
	}
}

// refused checks that a lock cannot be acquired, and why.
func (r *rig) refused(what string, lock locker, why error) {
	r.Helper()
	if _, err := lock(r.Context()); !errors.Is(err, why) {
		r.Fatalf("%s: %v, want %v", what, err, why)
	}
}

func (r *rig) unlock(l *holdfast.Lease) {
	r.Helper()
	r.must(l.Unlock(r.Context()))
}

// A call is a Lock that runs by itself. Its lease and err can be read when it is done.
type call struct {
	lease    *holdfast.Lease
	err      error
	returned chan struct{}
	end      context.CancelFunc
}

// begin starts a Lock and lets it come as far as it can.
func (r *rig) begin(lock locker) *call {
	ctx, cancel := context.WithCancel(r.Context())
	r.Cleanup(cancel)
	c := &call{returned: make(chan struct{}), end: cancel}
	go func() {
		c.lease, c.err = lock(ctx)
		close(c.returned)
	}()
	synctest.Wait()
	return c
}

// done reports whether the call has returned.
func (c *call) done() bool {
	select {
	case <-c.returned:
		return true
	default:
		return false
	}
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// holds reports whether a call has its lease, which is not over.
func (c *call) holds() bool { return c.done() && c.err == nil && c.lease.Err() == nil }

// cancelled is a context that is done.
func (r *rig) cancelled() context.Context {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	return ctx
}

// linkFaults are the faults of a link that the tests above choose from.
type linkFaults interface {
	Cut()
	Kill()
	HoldRequests() (release func())
	HoldReplies() (release func())
}

func (r *rig) queue(c *holdfast.Client, name string) holdfast.Queue {
	r.Helper()
	queue, err := c.Inspect(r.Context(), name)
	if err != nil {
		r.Fatal(err)
	}
	return queue
}

// beginMany starts Locks that queue in this order.
func (r *rig) beginMany(n int, lock locker) (calls []*call) {
	for range n {
		calls = append(calls, r.begin(lock))
	}
	return calls
}

// nothingRemains fails if names still have a queue after a while, or the server anything else of them.
func (r *rig) nothingRemains(names ...string) {
	r.Helper()
	r.pass(2 * ttl)
	r.nothingLeft(names...)
}

// nothingLeft fails if the server has anything of names now.
func (r *rig) nothingLeft(names ...string) {
	r.Helper()
	synctest.Wait()
	for _, name := range names {
		if n := r.server.Residue(name); n != 0 {
			r.Errorf("the server still holds %d things for %q", n, name)
		}
	}
}

// under is a locker that locks under the context of a lease.
func under(l *holdfast.Lease, lock locker) locker {
	return func(ctx context.Context) (*holdfast.Lease, error) {
		both, cancel := context.WithCancel(l.Context())
		defer context.AfterFunc(ctx, cancel)()
		return lock(both)
	}
}

// units is an Acquire of n units as a locker.
func units(s *holdfast.Semaphore, n int) locker {
	return func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, n) }
}

// lockAll acquires locks that are free.
func (r *rig) lockAll(parts ...holdfast.Part) *holdfast.MultiLease {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	m, err := holdfast.LockAll(ctx, parts...)
	if err != nil {
		r.Fatal(err)
	}
	return m
}

// mutexes are mutexes of a client, as parts.
func mutexes(c *holdfast.Client, names ...string) []holdfast.Part {
	var parts []holdfast.Part
	for _, name := range names {
		parts = append(parts, c.Mutex(name))
	}
	return parts
}

// free checks that another client can acquire these names at once.
func (r *rig) free(names ...string) {
	r.Helper()
	c := r.client()
	for _, name := range names {
		if l, err := c.Mutex(name).TryLock(r.Context()); err != nil {
			r.Errorf("%q is not free: %v", name, err)
		} else {
			r.unlock(l)
		}
	}
}

// errorOf returns the error of a call that should fail.
func errorOf[T any](_ T, err error) error { return err }

// breakLock breaks all holds of a lock, as an operator does.
func (r *rig) breakLock(name string) {
	r.Helper()
	c := r.client()
	for _, p := range r.queue(c, name).Holders() {
		r.must(c.Break(r.Context(), name, p.Token))
	}
}

// within is a context that ends after d.
func (r *rig) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.Context(), d)
	r.Cleanup(cancel)
	return ctx
}

// holds checks that a call gets its lease without more time passing, and still has it.
func (r *rig) holds(c *call, otherwise string) {
	r.Helper()
	synctest.Wait()
	switch {
	case !c.done():
		r.Fatalf("%s: it waits", otherwise)
	case c.err != nil:
		r.Fatalf("%s: %v", otherwise, c.err)
	case c.lease.Err() != nil:
		r.Fatalf("%s: %v", otherwise, c.lease.Err())
	}
}

// waits checks that a call has not returned.
func (r *rig) waits(c *call, otherwise string) {
	r.Helper()
	if synctest.Wait(); c.done() {
		r.Fatalf("%s: %v", otherwise, c.err)
	}
}
