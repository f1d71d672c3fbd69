package consulstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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

// A claim that waits is left while a Keep of it is just locking the key, which does not exist, or is unlocked and was
// just read. Nothing of it stays.
func TestPlainLeftWhileKept(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	for about, release := range map[string]string{
		`"Verb":"lock"`:         http.MethodDelete,
		`"Verb":"get-or-empty"`: http.MethodPut,
	} {
		t.Run(release, func(t *testing.T) { leaveWhileKept(t, server, about, release) })
	}
}

func leaveWhileKept(t *testing.T, server *servers.ConsulServer, about, release string) {
	t.Helper()
	g, s := openGate(t, server)
	_, other := openGate(t, server)
	testkit.Held(t, other, lockClaim())
	waiting := testkit.Waiting(t, s, lockClaim())
	var locked []struct {
		Session string
		Flags   json.Number
	}
	const key = "/v1/kv/lock"
	testkit.Must(t, server.Call(t.Context(), http.MethodGet, key, nil, &locked))
	lock := g.keep(about)
	testkit.Must(t, server.Call(t.Context(), release,
		fmt.Sprintf("%s?release=%s&flags=%s", key, locked[0].Session, locked[0].Flags), nil, nil))
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
	_, next := openGate(t, server)
	testkit.Leave(t, next, testkit.Held(t, next, lockClaim()))
}

// Two releases of a claim are on their way at the same time: one that the client repeats in the background, since the
// first was cancelled or the claim was found to have lost its key, and the caller's Leave. The first lands after the
// second, when another claim of the same client holds the lock. It must not lose it.
func TestPlainTwoReleases(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	for what, first := range map[string]func(*testing.T, *consulstore.Store, store.Claim){
		"cancelled": func(t *testing.T, s *consulstore.Store, held store.Claim) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Leave(ctx, held); err == nil {
				t.Error("Leave with a context that has ended returned nil")
			}
		},
		"deleted": func(t *testing.T, s *consulstore.Store, held store.Claim) {
			testkit.Must(t, server.Call(t.Context(), http.MethodDelete, "/v1/kv/deleted", nil, nil))
			testkit.Keep(t, s, held, store.Gone)
		},
	} {
		t.Run(what, func(t *testing.T) {
			g, s := openGate(t, server)
			held := testkit.Held(t, s, testkit.Claim(what, 10*sessionTTL))
			late := g.keep(`"Verb":"delete-cas"`)
			first(t, s, held)
			await(t, "the first release", late.caught)
			left := make(chan struct{})
			go func() {
				defer close(left)
				if err := s.Leave(t.Context(), held); err != nil {
					t.Error(err)
				}
			}()
			select { // a Leave that waits for the first release is right too
			case <-left:
			case <-time.After(500 * time.Millisecond):
				close(late.free)
				await(t, "the Leave", left)
			}
			next := testkit.Held(t, s, testkit.Claim(what, 10*sessionTTL))
			select {
			case <-late.free:
			default:
				close(late.free)
			}
			await(t, "the late release", late.landed)
			time.Sleep(300 * time.Millisecond) // for what follows it
			testkit.Keep(t, s, next, store.Held)
		})
	}
}

// A claim is left while its Join is just locking the key. The Join does not begin anew: nothing of it stays.
func TestPlainLeftWhileJoining(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	g, s := openGate(t, server)
	_, other := openGate(t, server)
	c := lockClaim()
	lock := g.keep(`"Verb":"lock"`)
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		_, _ = s.Join(t.Context(), c)
	}()
	await(t, "the lock", lock.caught)
	left := make(chan struct{})
	go func() {
		defer close(left)
		if err := s.Leave(t.Context(), c); err != nil {
			t.Error(err)
		}
	}()
	select { // a Leave that waits for the Join is right too
	case <-left:
	case <-time.After(500 * time.Millisecond):
	}
	close(lock.free)
	await(t, "the Join", joined)
	await(t, "the Leave", left)
	testkit.Held(t, other, lockClaim())
	testkit.Keep(t, s, c, store.Gone)
}

// A claim is left while its Join is just locking the key, and after its session was lost. The Join does not begin anew
// under the next session: nothing of it stays.
func TestPlainLeftWhileJoiningInALostSession(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	g, s := openGate(t, server)
	gone := make(chan struct{})
	held := testkit.Claim("held", 10*sessionTTL)
	s.Notify(func(id store.ID, status store.Status) {
		if id == held.ID && status.State == store.Gone {
			close(gone)
		}
	})
	held = testkit.Held(t, s, held)
	c := lockClaim()
	lock := g.keep(`"Verb":"lock"`)
	joined := make(chan store.Status, 1)
	go func() {
		status, _ := s.Join(t.Context(), c)
		joined <- status
	}()
	await(t, "the lock", lock.caught)
	var sessions []struct{ ID string }
	testkit.Must(t, server.Call(t.Context(), http.MethodGet, "/v1/session/list", nil, &sessions))
	for _, own := range sessions {
		testkit.Must(t, server.Call(t.Context(), http.MethodPut, "/v1/session/destroy/"+own.ID, nil, nil))
	}
	await(t, "the loss of the session", gone)
	testkit.Must(t, s.Leave(t.Context(), c))
	close(lock.free)
	if status := <-joined; status.State != store.Gone {
		t.Errorf("Join of a claim that has left: %v", status)
	}
	_, other := openGate(t, server)
	testkit.Held(t, other, lockClaim())
}

// An operator breaks a lock. A request to lock the key, which the client had given up before it held, arrives when the
// key is free again, and locks it for the client's session: the claim is gone all the same, and so is the key.
func TestPlainBrokenBeforeALateLock(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	g, s := openGate(t, server)
	_, other := openGate(t, server)
	blocker := testkit.Held(t, other, lockClaim())
	c := testkit.Waiting(t, s, lockClaim())
	testkit.Leave(t, other, blocker)
	lock := g.keep(`"Verb":"lock"`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-lock.caught
		cancel()
	}()
	if _, err := s.Keep(ctx, []store.Claim{c}); err == nil {
		t.Fatal("a Keep that was given up has a result")
	}
	c.Ticket = testkit.Keep(t, s, c, store.Held).Ticket
	testkit.Must(t, other.Break(t.Context(), c.Name, c.Ticket))
	testkit.Leave(t, other, testkit.Held(t, other, lockClaim()))
	close(lock.free)
	await(t, "the late lock", lock.landed)
	testkit.Keep(t, s, c, store.Gone)
	testkit.Await(t, "the lock is free", func() bool {
		next := lockClaim()
		next.Try = true
		status, err := other.Join(t.Context(), next)
		testkit.Must(t, err)
		return status.State == store.Held
	})
}
