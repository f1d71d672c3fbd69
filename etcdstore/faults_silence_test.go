package etcdstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// newCluster starts three servers for tests that do no harm to them. At the end nothing must be left in them.
func newCluster(t *testing.T) *servers.EtcdServers {
	t.Helper()
	cluster := servers.EtcdCluster(t, 3)
	client := cluster.Client(t)
	t.Cleanup(func() { nothingIsLeft(t, client, longTTL) })
	return cluster
}

// lateThenLost holds answers back for nearly as long as a lease with this ttl lasts, also those to what is asked now,
// and lets nothing pass after them.
func lateThenLost(w testkit.Ways, ttl time.Duration, ask func()) (end func()) {
	release := w.Hold(proxy.Down)
	ask()
	time.Sleep(ttl * 9 / 10) // that is how late they are
	endUp := w.Silence(proxy.Requests)
	release()
	endDown := w.Silence(proxy.Down)
	return func() {
		endUp()
		endDown()
	}
}

// TestCutOff cuts a holder off from all servers for longer than its lease. Its context ends before the next is granted
// the lock. When it hears again, it stays lost, what it sent meanwhile takes nothing from the next one, and it gets the
// lock again in its turn.
//
// One that does not notice, and one that counts wrong, are cut off too: the checkers see it.
func TestCutOff(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	clusterOf(cluster, cluster.Client(t)).TestCutOff(t, map[string]func(testkit.Ways) func(){
		"responses are late, then all is lost": func(w testkit.Ways) func() {
			return lateThenLost(w, lastingTTL, func() {})
		},
	})
	t.Run("counting from the response is seen", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		ways := testkit.NewWays(t, cluster.Endpoints())
		key := etcdstore.LineKey(w.Mutex) + "naive"
		cutOff := newNaive(t, ways.Addrs(), key, lastingTTL)
		w.Must(cutOff.take(t.Context()))
		first, err := w.Record("cut off", 0, cutOff.believes)
		w.Must(err)
		renewed := make(chan error, 1)
		defer lateThenLost(ways, lastingTTL, func() {
			go func() { renewed <- cutOff.renew(t.Context()) }()
			testkit.Await(t, "the renewal was answered", func() bool { return ways.Held(proxy.Down) > 0 })
		})()
		w.Must(<-renewed)
		ctx, cancel := context.WithTimeout(t.Context(), testkit.ScenePatience)
		defer cancel()
		other := newNaive(t, cluster.Endpoints(), key, lastingTTL)
		w.Must(other.take(ctx))
		second, err := w.Record("other", 0, other.believes)
		w.Must(err)
		w.MustOverlap(second, first)
	})
}
