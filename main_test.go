package holdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// ttl is what the tests use, so that times in them can be read against it.
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

// client is one more process that uses the server.
func (r *rig) client(options ...holdfast.Option) *holdfast.Client {
	c := holdfast.New(r.server.Connect(), options...)
	r.Cleanup(func() { c.Close() })
	return c
}

// linked is a client behind a link that can fail.
func (r *rig) linked(options ...holdfast.Option) (*holdfast.Client, *storetest.Pipe) {
	pipe := storetest.NewPipe()
	c := holdfast.New(r.server.Connect(memstore.Over(pipe)), options...)
	r.Cleanup(func() { pipe.Kill(); c.Close() })
	return c, pipe
}

// A locker is anything that Lock is a method value of.
type locker func(context.Context) (*holdfast.Lease, error)

// lock takes a lock that is free.
func (r *rig) lock(lock locker) *holdfast.Lease {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	l, err := lock(ctx)
	if err != nil {
		r.Fatal(err)
	}
	return l
}

func (r *rig) unlock(l *holdfast.Lease) {
	r.Helper()
	if err := l.Unlock(r.Context()); err != nil {
		r.Fatal(err)
	}
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

// done says whether the call has returned.
func (c *call) done() bool {
	select {
	case <-c.returned:
		return true
	default:
		return false
	}
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// holds says whether a call has got its lease and still has it.
func (c *call) holds() bool { return c.done() && c.err == nil && c.lease.Err() == nil }
