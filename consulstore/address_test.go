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

// refusingAgent returns the address of an agent that refuses every request with these words.
func refusingAgent(t testing.TB, words string) string {
	t.Helper()
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, words, http.StatusBadRequest)
	}))
	t.Cleanup(agent.Close)
	return agent.Listener.Addr().String()
}

// Of three servers the one that is named first stands still. The store is opened at another.
func TestFirstServerStopped(t *testing.T) {
	t.Parallel()
	cluster := servers.ConsulCluster(t, 3)
	followers, err := cluster.Followers()
	testkit.Must(t, err)
	testkit.Must(t, followers[0].Pause())
	raw := "consul://" + followers[0].Addr() + "," + followers[1].Addr() + "?ttl=5s"
	testkit.CheckWorks(t, testkit.Open(t, raw))
}

// The server that is in use dies, and another is taken.
func TestServerInUseDies(t *testing.T) {
	t.Parallel()
	cluster := servers.ConsulCluster(t, 3)
	followers, err := cluster.Followers()
	testkit.Must(t, err)
	s := testkit.Open(t, "consul://"+followers[0].Addr()+","+followers[1].Addr()+"?ttl=5s")
	testkit.CheckWorks(t, s)
	testkit.Must(t, followers[0].Kill())
	testkit.Await(t, "the other server is used", func() bool { return testkit.Tour(t.Context(), s) == nil })
}

// A proxy before the agent has lost its way, and has no page for keys: to the blocking query of a waiter it says that
// nothing is there. That is no proof that the holder has left, and the waiter is not told so.
func TestProxyHasNoSuchPage(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	at, err := url.Parse(server.URL())
	testkit.Must(t, err)
	pass := httputil.NewSingleHostReverseProxy(at)
	var refused atomic.Int32
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/kv/"+consulstore.LineOf("wanted")) && refused.Add(1) <= 3 {
			http.NotFound(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(agent.Close)
	holder := testkit.Open(t, "consul://"+server.Addr()+"?ttl=5s")
	waiter := testkit.Open(t, strings.Replace(agent.URL, "http://", "consul://", 1)+"?ttl=5s")
	told := testkit.Listen(waiter)
	held := testkit.Held(t, holder, testkit.Claim("wanted", 5*time.Second))
	waits := testkit.Waiting(t, waiter, testkit.Claim("wanted", 5*time.Second))
	testkit.Await(t, "the proxy is asked again", func() bool { return refused.Load() > 3 || len(told) > 0 })
	if len(told) > 0 {
		t.Errorf("the waiter was told, and is %v", testkit.Ask(t, waiter, waits))
	}
	testkit.Keep(t, waiter, waits, store.Waiting)
	testkit.Leave(t, holder, held)
	testkit.AwaitTold(t, told, waits.ID, "the waiter is told")
	testkit.Keep(t, waiter, waits, store.Held)
}

// What answers at the address is no Consul.
func TestNoConsul(t *testing.T) {
	t.Parallel()
	page := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(text)) } //nolint:errcheck // a test sees that
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		final   bool
		says    string
	}{
		"not found": {http.NotFound, true, "404 page not found"},
		"a page":    {page("<html>"), false, "not one of Consul's"},
		"a number":  {page("1"), false, "not one of Consul's"},
		"empty":     {page(""), false, "not one of Consul's"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := httptest.NewServer(test.handler)
			t.Cleanup(agent.Close)
			err := testkit.OpenError(t, strings.Replace(agent.URL, "http://", "consul://:secret@", 1)+shortTTL)
			checkFault(t, err, test.final, test.says)
		})
	}
}
