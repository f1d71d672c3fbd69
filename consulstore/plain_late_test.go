package consulstore_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// A gate is a client's way to its server. It can keep a request on its way.
type gate struct {
	http.RoundTripper

	mu   sync.Mutex
	next *kept // of the next request that it is meant for
}

// A kept request is on its way until it is let go, also when its sender has given it up.
type kept struct {
	about  string        // what the request has in it
	caught chan struct{} // is closed when there is one
	free   chan struct{} // closed to let it go
	landed chan struct{} // is closed when it was responded to
}

// openGate opens a store in plain mode that has a gate.
func openGate(t testing.TB, server *servers.ConsulServer) (*gate, *consulstore.Store) {
	t.Helper()
	g := &gate{}
	s, err := consulstore.OpenOver(t.Context(), func(own http.RoundTripper) http.RoundTripper {
		g.RoundTripper = own
		return g
	}, []string{server.Addr()}, consulstore.WithTTL(10*sessionTTL), consulstore.WithPlainMode())
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return g, s
}

// keep has the next request kept that has this in it.
func (g *gate) keep(about string) *kept {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = &kept{about, make(chan struct{}), make(chan struct{}), make(chan struct{})}
	return g.next
}

func (g *gate) keepIt(body []byte) *kept {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.next
	if k == nil || !bytes.Contains(body, []byte(k.about)) {
		return nil
	}
	g.next = nil
	return k
}

// CloseIdleConnections is called by http.Client.
func (g *gate) CloseIdleConnections() { g.RoundTripper.(*http.Transport).CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return g.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	k := g.keepIt(body)
	if k == nil {
		return g.RoundTripper.RoundTrip(r)
	}
	close(k.caught)
	var response *http.Response
	go func() {
		<-k.free
		//nolint:bodyclose // it is closed below: its sender may not be there to read it
		response, err = g.RoundTripper.RoundTrip(r.Clone(context.WithoutCancel(r.Context())))
		if err == nil {
			var text []byte
			text, err = io.ReadAll(response.Body)
			response.Body.Close()
			response.Body = io.NopCloser(bytes.NewReader(text))
		}
		close(k.landed)
	}()
	select {
	case <-k.landed:
		return response, err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// lockClaim is a claim whose calls have time.
func lockClaim() store.Claim { return testkit.Claim("lock", 10*sessionTTL) }

// await waits for a channel to be closed.
func await(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not happen", what)
	}
}

// A release is on its way for longer than its caller waits, and the lock is released by another request. When the first
// one lands, another claim of the same client holds the lock. It must not lose it.
func TestPlainLateRelease(t *testing.T) {
	t.Parallel()
	g, s := openGate(t, servers.Consul(t))
	first := testkit.Held(t, s, lockClaim())
	late := g.keep(`"Verb":"delete`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-late.caught
		cancel()
	}()
	if err := s.Leave(ctx, first); err == nil {
		t.Fatal("the release was not kept")
	}
	testkit.Must(t, s.Leave(t.Context(), first))
	second := testkit.Held(t, s, lockClaim())
	close(late.free)
	await(t, "the late release", late.landed)
	testkit.Keep(t, s, second, store.Held)
}

// A claim that waits is left while a Keep of it is just locking the key. Nothing of it stays.
func TestPlainLeftWhileKept(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	g, s := openGate(t, server)
	_, other := openGate(t, server)
	held := testkit.Held(t, other, lockClaim())
	waiting := testkit.Waiting(t, s, lockClaim())
	testkit.Must(t, other.Leave(t.Context(), held))
	lock := g.keep(`"Verb":"lock"`)
	kept, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(kept)
		_, _ = s.Keep(t.Context(), []store.Claim{waiting}) // it may be held or gone by then
	}()
	await(t, "the lock", lock.caught)
	go func() {
		defer close(left)
		if err := s.Leave(t.Context(), waiting); err != nil {
			t.Error(err)
		}
	}()
	select { // a Leave that does not wait has been too early
	case <-left:
	case <-time.After(500 * time.Millisecond):
	}
	close(lock.free)
	await(t, "the Keep", kept)
	await(t, "the Leave", left)
	testkit.Held(t, other, lockClaim())
}
