package zkstore_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// silences are how a client is cut off and nobody says so: there is no error, there are just no bytes.
var silences = []struct {
	name  string
	begin func(testkit.Ways) (end func())
}{
	{"all is lost", func(w testkit.Ways) func() { return w.Silence(proxy.All) }},
	{"all is late", func(w testkit.Ways) func() { return w.Hold(proxy.All) }},
	{"requests are late", func(w testkit.Ways) func() { return w.Hold(proxy.Requests) }},
	{"responses are late", func(w testkit.Ways) func() { return w.Hold(proxy.Down) }},
}

// A holder is cut off from all servers for longer than its session. Its context ends before the next is granted the
// lock. When it hears again, it stays lost, what it sent meanwhile takes nothing from the next one, and it gets the
// lock again in its turn. A store that does not notice is cut off too: the checkers see it.
func testCutOff(t *testing.T, e *servers.ZooKeeperServers) {
	for _, silence := range silences {
		t.Run(silence.name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, e)
			ways := testkit.NewWays(t, e.Endpoints())
			cutOff := w.open("zk", lastingTTL, ways.Addrs()...)
			first := w.Take(cutOff)
			next := w.wait(w.open("zk", lastingTTL), 1)
			end := silence.begin(ways)
			second := next.Granted()
			w.MustLose(first, soon, "")
			end()
			again := w.wait(cutOff, 1)
			if !second.Believed() {
				t.Errorf("the next one's lease is %v", second.Err())
			}
			w.MustLose(first, soon, "")
			w.Release(second)
			w.MustExclude(first, second, again.Granted())
		})
	}
	t.Run("a believer is seen", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, e)
		ways := testkit.NewWays(t, e.Endpoints())
		first := w.Take(w.open(believerScheme, lastingTTL, ways.Addrs()...))
		next := w.wait(w.open("zk", lastingTTL), 1)
		defer ways.Silence(proxy.All)()
		w.MustOverlap(next.Granted(), first)
	})
}

// A process that holds a lock is killed. The next is granted it when the session has expired, and within the time that
// Abilities promises.
func testKilledHolder(t *testing.T, e *servers.ZooKeeperServers) {
	w := newWitness(t, e)
	abilities := testkit.Open(t, storeURL("zk", lastingTTL, e.Endpoints()...)).Abilities()
	promised := time.Duration(abilities.TakeoverTTLs)*lastingTTL + abilities.TakeoverPlus
	h := w.StartHolder(storeURL("zk", lastingTTL, e.Endpoints()...))
	next := w.wait(w.open("zk", lastingTTL), 1)
	killed := time.Now()
	h.Kill()
	second := next.Granted()
	took := time.Since(killed)
	t.Logf("granted after %v, promised within %v", took, promised)
	// Something was sent about a third of the ttl before it was killed, or somewhat earlier on a busy machine.
	if took < lastingTTL/4 || took > promised {
		t.Errorf("a killed holder's lock was free after %v, and %v is promised", took, promised)
	}
	w.MustExclude(second)
}
