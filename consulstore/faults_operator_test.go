package consulstore_test

import (
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// An operator destroys a holder's session. The holder notices it at once, long before the next renewal, and goes on
// with another session. A store that does not listen is seen.
func testSessionDestroyed(t *testing.T, c *servers.ConsulServers) {
	destroy := func(w *witness) { w.call(http.MethodPut, "/v1/session/destroy/"+w.keys()[0].Session, nil) }
	testEndedSession(t, c, "", destroy)
	t.Run("a believer is seen", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, c)
		held := w.Take(w.OpenAt(believerScheme, longTTL))
		destroy(w)
		w.MustOverlap(w.Take(w.OpenLong()), held)
	})
}

// An operator deregisters the node that a session belongs to, and that ends the session. The client notices it at once,
// and registers the node again.
func testNodeDeregistered(t *testing.T, c *servers.ConsulServers) {
	const node = "deregistered" // the sessions of other tests belong to another
	testEndedSession(t, c, "&node="+node, func(w *witness) {
		w.call(http.MethodPut, "/v1/catalog/deregister", map[string]string{"Node": node})
	})
}

// testEndedSession has a session end at once, and demands that its client notices and goes on.
func testEndedSession(t *testing.T, c *servers.ConsulServers, parameter string, end func(*witness)) {
	t.Helper()
	t.Run("noticed", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, c)
		locks := w.Open(w.URL("consul", longTTL) + parameter)
		held := w.Take(locks)
		end(w)
		w.MustLose(held, soon, "")
		w.MustExclude(held, w.Take(locks))
	})
}

// An operator deletes the key of a session. All of its claims are lost, and with them the session: nothing of it stays
// in the servers, the next is granted the lock only then, and the client goes on with another.
func testSessionKeyDeleted(t *testing.T, c *servers.ConsulServers) {
	w := newWitness(t, c)
	locks := w.OpenLasting()
	held := w.Take(locks)
	next := w.WaitBehind(1, w.OpenLasting())
	deleteKey(t, c, "holdfast/session/"+w.keys()[0].Session)
	second := next.Granted()
	w.MustLose(held, soon, "")
	w.Release(second)
	w.MustExclude(held, second, w.Take(locks))
}

// A client agent is killed, or leaves in good order, under its clients, and is started again. Their locks stay, since
// sessions do not belong to the agent. One that does is seen: its lock is another's at once, while it believes in it.
func testAgentRestarted(t *testing.T, c *servers.ConsulServers) {
	for name, stop := range map[string]func(*servers.ConsulServer) error{
		"killed": func(agent *servers.ConsulServer) error { return agent.Kill() },
		"left":   func(agent *servers.ConsulServer) error { return agent.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, c)
			agent := c.Agent(t)
			held := w.Take(w.OpenLong(agent.Addr()))
			next := w.WaitBehind(1, w.OpenLong(agent.Addr()))
			w.Must(stop(agent))
			w.Must(agent.Start())
			w.Must(agent.AwaitHealthy())
			w.MustHold(held, next)
			w.Release(held)
			w.MustGrantSoon(next, held)
		})
	}
	t.Run("a session of the agent is seen", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, c)
		agent := c.Agent(t)
		way := testkit.Proxy(t, agent.Addr())
		held := w.Take(w.Open(w.URL("consul", longTTL, way.Addr()) + "&node=" + agent.Name()))
		next := w.WaitBehind(1, w.OpenLong())
		way.Silence(proxy.All) // an agent that leaves may say so to some of its clients
		w.Must(agent.Stop())
		w.MustOverlap(next.Granted(), held)
	})
}

// The health of the agent, and that of the node that sessions belong to, goes critical. Consul ends sessions that ask
// for that, as those do that are made without a word about checks. Those of the store stay.
func testHealthCritical(t *testing.T, c *servers.ConsulServers) {
	w := newWitness(t, c)
	agent := c.Agent(t)
	locks := w.OpenLong(agent.Addr())
	held := w.Take(locks)
	next := w.WaitBehind(1, w.OpenLong())
	var simple struct{ ID string }
	w.Must(agent.Call(t.Context(), http.MethodPut, "/v1/session/create", nil, &simple))
	for node, check := range map[string]string{"holdfast": "any", agent.Name(): "serfHealth"} {
		critical := map[string]string{"Node": node, "CheckID": check, "Name": check, "Status": "critical"}
		w.call(http.MethodPut, "/v1/catalog/register", map[string]any{
			"Node": node, "SkipNodeUpdate": true, "Check": critical,
		})
	}
	testkit.Await(t, "Consul has ended the session that has checks", func() bool {
		var there []any
		w.Must(c.Nodes[0].Call(t.Context(), http.MethodGet, "/v1/session/info/"+simple.ID+"?consistent", nil, &there))
		return len(there) == 0
	})
	w.MustHold(held, next)
	w.useNewSession(agent)
	w.Release(held)
	w.MustGrantSoon(next, held)
}

// useNewSession has another client use the store through an agent.
func (w *witness) useNewSession(agent *servers.ConsulServer) {
	w.Helper()
	locks := w.OpenLong(agent.Addr())
	testkit.Unlock(w, testkit.Lock(w, locks, w.Mutex+" too"))
}
