//go:build linux

package consulstore_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// naiveTTL is that of the sessions of naive locks: Consul takes no shorter one.
const naiveTTL = sessionTTL / 2

// A naive lock is a key that a session has locked. It believes for the session's ttl after it sent a renewal that was
// responded to.
type naive struct {
	at       *servers.ConsulServer
	key      string
	session  string
	renewals atomic.Int32 // that were responded to
	until    atomic.Pointer[time.Time]
}

// newNaive begins a session at one server, and renews it until the test ends.
func newNaive(w *witness, at *servers.ConsulServer) *naive {
	w.Helper()
	n := &naive{at: at, key: "naive/" + fmt.Sprintf("%x", w.Mutex)}
	settings := map[string]any{
		"TTL":        naiveTTL.String(),
		"Behavior":   "delete",
		"LockDelay":  "0s",
		"NodeChecks": []string{},
	}
	var session struct{ ID string }
	w.Must(at.Call(w.Context(), http.MethodPut, "/v1/session/create", settings, &session))
	n.session = session.ID
	n.answered(time.Now())
	go n.renewAll(w.Context())
	return n
}

// renewAll renews the session again and again, as long as that is responded to.
func (n *naive) renewAll(ctx context.Context) {
	for ctx.Err() == nil {
		sent := time.Now()
		if n.at.Call(ctx, http.MethodPut, "/v1/session/renew/"+n.session, nil, nil) != nil {
			return
		}
		n.answered(sent)
		n.renewals.Add(1)
		time.Sleep(naiveTTL / 20)
	}
}

func (n *naive) answered(sent time.Time) {
	until := sent.Add(naiveTTL)
	n.until.Store(&until)
}

func (n *naive) believes() bool { return time.Now().Before(*n.until.Load()) }

// take locks the key, and records the hold.
func (n *naive) take(w *witness, client string) *testkit.Hold {
	w.Helper()
	testkit.Await(w, "the naive lock is free", func() (locked bool) {
		w.Must(n.at.Call(w.Context(), http.MethodPut, "/v1/kv/"+n.key+"?acquire="+n.session, nil, &locked))
		return locked
	})
	h, err := w.Record(client, 0, n.believes)
	w.Must(err)
	return h
}

// The leader is deposed and does not know it. It goes on renewing sessions, while the next leader counts from its own
// election. A client that believes in such renewals believes in its lock when Consul has given it to the next. The
// store does not: the context of its holder ends before the next is granted. A holder that could reach all servers
// leaves the deposed leader, and keeps its lock.
func TestDeposedLeader(t *testing.T) {
	t.Parallel()
	// A deposed leader believes for up to 2.5 seconds.
	c := newCluster(t, 3, servers.Cuttable(), servers.OwnTimeouts(), servers.Args("-hcl", `session_ttl_min = "500ms"`))
	for try := range 3 { // on a busy machine the leader may have no time for renewals before it knows
		if playDeposedLeader(t, c, fmt.Sprint("try ", try)) {
			return
		}
	}
	t.Error("believing in renewals has never let two hold at once")
}

// playDeposedLeader reports whether the naive lock had two holders.
func playDeposedLeader(t *testing.T, c *servers.ConsulServers, word string) bool {
	t.Helper()
	w, simple, moving := newWitness(t, c, word), newWitness(t, c, word, "naive"), newWitness(t, c, word, "moving")
	near, err := c.Leader()
	w.Must(err)
	var others []string
	for _, node := range c.Nodes {
		if node != near {
			others = append(others, node.Addr())
		}
	}
	all := append([]string{near.Addr()}, others...)

	kept := moving.Take(moving.OpenAt("consul", 3*lastingTTL, all...))
	keptNext := moving.WaitBehind(1, moving.OpenAt("consul", 3*lastingTTL, others...))
	first := w.Take(w.OpenLasting(near.Addr()))
	next := w.WaitBehind(1, w.OpenLasting(others...))
	naiveNear := newNaive(simple, near)
	believer := naiveNear.take(simple, "near")

	deposed, elected, hear, err := c.Depose(t.Context())
	w.Must(err)
	defer hear()
	if deposed != near {
		t.Log("another server led by then")
	}
	before := naiveNear.renewals.Load()
	naiveFar := newNaive(simple, elected).take(simple, "far")
	falsely := naiveNear.renewals.Load() - before
	overlaps, _ := simple.Findings(naiveFar, believer)
	t.Logf("the deposed leader has answered %d renewals, %d overlaps", falsely, len(overlaps))

	second := next.Granted()
	w.MustLose(first, soon, "")
	w.MustExclude(first, second)
	hear()
	w.Must(deposed.AwaitHealthy())
	moving.MustHold(kept, keptNext)
	moving.Release(kept)
	moving.MustGrantSoon(keptNext, kept)
	return falsely > 0 && len(overlaps) > 0
}
