package consulstore_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/consulstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// A frontend is an HTTP server before Consul, as a load balancer is one. It passes requests on until it is told to
// respond by itself.
type frontend struct {
	*httptest.Server
	responds atomic.Pointer[http.HandlerFunc]
}

func newFrontend(t *testing.T, server *servers.ConsulServer) *frontend {
	t.Helper()
	pass := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.Addr()})
	f := &frontend{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if respond := f.responds.Load(); respond != nil {
			(*respond)(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// addr is where it listens.
func (f *frontend) addr() string { return strings.TrimPrefix(f.URL, "http://") }

// respond has it respond by itself.
func (f *frontend) respond(status int, text string) {
	respond := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, status) })
	f.responds.Store(&respond)
}

// openAt opens a store by these addresses.
func openAt(t *testing.T, ttl time.Duration, addrs ...string) *consulstore.Store {
	t.Helper()
	s, err := consulstore.Open(t.Context(), addrs, consulstore.WithTTL(ttl))
	testkit.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// awaitHolds waits until a claim can be kept, which must be held then.
func awaitHolds(t *testing.T, s *consulstore.Store, c store.Claim) {
	t.Helper()
	testkit.Await(t, c.Name+" is kept", func() bool { return testkit.Holds(t.Context(), s, c) })
}

// A server has no leader, and says so at once, for longer than a session lives. Its clients go on with the next server,
// and keep what they hold.
func TestServerWithoutLeaderIsLeft(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	f := newFrontend(t, server)
	s := openAt(t, lastingTTL, f.addr(), server.Addr())
	held := testkit.Held(t, s, testkit.Claim("held", lastingTTL))
	f.respond(http.StatusInternalServerError, "No cluster leader")
	for end := time.Now().Add(2 * lastingTTL); time.Now().Before(end); time.Sleep(lastingTTL / 3) {
		statuses, err := s.Keep(t.Context(), []store.Claim{held})
		if err == nil && statuses[0].State != store.Held {
			t.Fatalf("it is %v", statuses[0].State)
		}
	}
	testkit.Keep(t, s, held, store.Held)
}

// Something between client and Consul says that a page is not found. That is no word of Consul's that a key was
// deleted: nothing is granted, and nothing lost.
func TestNotFoundOfAnother(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	f := newFrontend(t, server)
	s, other := openAt(t, longTTL, f.addr()), openAt(t, longTTL, server.Addr())
	told := testkit.Listen(s)
	kept := testkit.Held(t, s, testkit.Claim("kept", longTTL))
	first := testkit.Held(t, other, testkit.Claim("wanted", longTTL))
	waiting := testkit.Waiting(t, s, testkit.Claim("wanted", longTTL))
	f.respond(http.StatusNotFound, "404 page not found")
	f.CloseClientConnections()
	select {
	case id := <-told:
		t.Errorf("it was told of %v, and that is the one that waits: %v", id, id == waiting.ID)
	case <-time.After(sessionTTL):
	}
	f.responds.Store(nil)
	awaitHolds(t, s, kept)
	testkit.Leave(t, other, first)
	testkit.AwaitTold(t, told, waiting.ID, "the release is noticed")
}

// A waiter's claim is broken, and then what it waits for leaves. It does not hold: another that came after it does.
func TestBrokenWaiterIsNotGranted(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	open := func() *consulstore.Store { return openAt(t, longTTL, server.Addr()) }
	holder, broken, next := open(), open(), open()
	granted := make(chan string, 10)
	for name, s := range map[string]store.Store{"broken": broken, "next": next} {
		s.Notify(func(_ store.ID, status store.Status) {
			if status.State == store.Held {
				granted <- name
			}
		})
	}
	held := testkit.Held(t, holder, testkit.Claim("wanted", longTTL))
	first := testkit.Waiting(t, broken, testkit.Claim("wanted", longTTL))
	testkit.Must(t, holder.Break(t.Context(), "wanted", first.Ticket))
	second := testkit.Waiting(t, next, testkit.Claim("wanted", longTTL))
	testkit.Leave(t, holder, held)
	testkit.AwaitHeld(t, next, second)
	select {
	case name := <-granted:
		if name != "next" {
			t.Errorf("the lock was granted to the %s one", name)
		}
	case <-time.After(soon):
		t.Error("nobody was told of the grant")
	}
	testkit.Keep(t, broken, first, store.Gone)
	if len(granted) > 0 {
		t.Errorf("the lock was granted to the %s one, too", <-granted)
	}
}

// The key that a claim is to have is locked by another session, as by one of its client's own that was given up and
// that Consul still has. The claim is not joined, and the session and its other claims stay.
func TestKeyOfAnotherSession(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	s := openAt(t, longTTL, server.Addr())
	kept := testkit.Held(t, s, testkit.Claim("kept", longTTL))
	c := testkit.Claim("taken", longTTL)
	var session struct{ ID string }
	testkit.Must(t, server.Call(t.Context(), http.MethodPut, "/v1/session/create", nil, &session))
	path := "/v1/kv/" + consulstore.KeyOf("taken", c.ID) + "?acquire=" + session.ID
	testkit.Must(t, server.Call(t.Context(), http.MethodPut, path, nil, nil))
	if status, err := s.Join(t.Context(), c); !testkit.Passes(err) {
		t.Errorf("it is %v, and the error is %v", status.State, err)
	}
	testkit.Keep(t, s, kept, store.Held)
}

// A store gives its session up, since the session's key was deleted, and is closed. Nothing of it is left.
func TestCloseEndsLostSession(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	s := openAt(t, longTTL, c.Nodes[0].Addr())
	told := testkit.Listen(s)
	held := testkit.Held(t, s, testkit.Claim("held", longTTL))
	session := keysUnder(t, c.Nodes[0], consulstore.LineOf("held"))[0].Session
	testkit.Must(t, c.Nodes[0].Call(t.Context(), http.MethodDelete, "/v1/kv/holdfast/session/"+session, nil, nil))
	testkit.AwaitTold(t, told, held.ID, "it is told of its loss")
	testkit.Must(t, s.Close())
}

// Without a majority nothing is granted, and no call says that another holds the lock. Two of three servers are killed
// or stopped, and come back.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	c := servers.ConsulCluster(t, 3)
	s := openAt(t, longTTL, c.Endpoints()...)
	held := testkit.Held(t, s, testkit.Claim("held", longTTL))
	for _, node := range c.Nodes[1:] {
		testkit.Must(t, node.Kill())
	}
	testkit.CheckHelpless(t, s, held, "consul at 127.0.0.1:")
	for _, node := range c.Nodes[1:] {
		testkit.Must(t, node.Start())
	}
	awaitHolds(t, s, held)
	testkit.CheckWorks(t, s)
}
