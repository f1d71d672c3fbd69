package consulstore_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// silences are how a client is cut off and nobody says so: there is no error, there are just no bytes.
var silences = map[string]func(testkit.Ways) (end func()){
	"all is lost":        func(w testkit.Ways) func() { return w.Silence(proxy.All) },
	"all is late":        func(w testkit.Ways) func() { return w.Hold(proxy.All) },
	"requests are late":  func(w testkit.Ways) func() { return w.Hold(proxy.Requests) },
	"responses are late": func(w testkit.Ways) func() { return w.Hold(proxy.Down) },
}

// A holder is cut off from all servers for longer than its session. Its context ends before the next is granted the
// lock. When it hears again, it stays lost, what it sent meanwhile takes nothing from the next one, and it gets the
// lock again in its turn. A store that does not notice is cut off too: the checkers see it.
func testCutOff(t *testing.T, c *servers.ConsulServers) {
	for name, begin := range silences {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, c)
			ways := testkit.NewWays(t, c.Endpoints())
			cutOff := w.open("consul", lastingTTL, ways.Addrs()...)
			first := w.Take(cutOff)
			next := w.wait(w.open("consul", lastingTTL), 1)
			end := begin(ways)
			second := next.Granted()
			w.MustLose(first, soon, "")
			end()
			again := w.wait(cutOff, 1)
			if !second.Believed() {
				t.Errorf("the next one's lease is %v", second.Err())
			}
			w.Release(second)
			w.MustExclude(first, second, again.Granted())
		})
	}
	t.Run("a believer is seen", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, c)
		ways := testkit.NewWays(t, c.Endpoints())
		first := w.Take(w.open(believerScheme, lastingTTL, ways.Addrs()...))
		next := w.wait(w.open("consul", lastingTTL), 1)
		defer ways.Silence(proxy.All)()
		w.MustOverlap(next.Granted(), first)
	})
}

// A process that holds a lock is killed. The next is granted it when Consul has ended the session: when twice the ttl
// has passed since the last renewal, which was sent up to a third of the ttl before.
func testKilledHolder(t *testing.T, c *servers.ConsulServers) {
	w := newWitness(t, c)
	h := w.StartHolder(w.url("consul", lastingTTL))
	next := w.wait(w.open("consul", lastingTTL), 1)
	killed := time.Now()
	h.Kill()
	second := next.Granted()
	took := time.Since(killed)
	t.Logf("with a ttl of %v, granted %v after the holder was killed", lastingTTL, took)
	if took < lastingTTL || took > 2*lastingTTL+soon {
		t.Errorf("a killed holder's lock was free after %v", took)
	}
	w.MustExclude(second)
}
