package etcdstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
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

// silences are how a client is cut off and nobody says so: there is no error, there are just no bytes.
var silences = []struct {
	name  string
	begin func(ways) (end func())
}{
	{"all is lost", func(w ways) func() { return w.silence(proxy.All) }},
	{"all is late", func(w ways) func() { return w.hold(proxy.All) }},
	{"requests are late", func(w ways) func() { return w.hold(proxy.Requests) }},
	{"answers are late", func(w ways) func() { return w.hold(proxy.Down) }},
	{"answers are late, then all is lost", func(w ways) func() { return w.lateThenLost(lastingTTL, func() {}) }},
}

// lateThenLost holds answers back for nearly as long as a lease with this ttl lasts, also those to what is asked now, and lets
// nothing pass after them.
func (w ways) lateThenLost(ttl time.Duration, ask func()) (end func()) {
	release := w.hold(proxy.Down)
	ask()
	time.Sleep(ttl * 9 / 10) // that is how late they are
	endUp := w.silence(proxy.Requests)
	release()
	endDown := w.silence(proxy.Down)
	return func() {
		endUp()
		endDown()
	}
}

// TestCutOff cuts a holder off from all servers for longer than its lease. Its context ends before the next is granted the
// lock. When it hears again, it stays lost, what it sent meanwhile takes nothing from the next one, and it gets the lock
// again in its turn.
//
// One that does not notice, and one that counts wrong, are cut off too: the checkers see it.
func TestCutOff(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	for _, silence := range silences {
		t.Run(silence.name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, cluster)
			ways := newWays(t, cluster.Endpoints())
			cutOff := w.open("etcd", ways.addrs(), lastingTTL)
			other := w.open("etcd", cluster.Endpoints(), lastingTTL)
			first := w.take(cutOff)
			next := w.wait(other, 1)
			end := silence.begin(ways)
			second := next.granted()
			w.mustLose(first)
			end()
			again := w.wait(cutOff, 1)
			if !second.belief.Check() {
				t.Errorf("the next one's lease is %v", second.Err())
			}
			w.mustLose(first)
			w.giveBack(second)
			w.mustExclude(first, second, again.granted())
		})
	}
	t.Run("a believer is seen", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		ways := newWays(t, cluster.Endpoints())
		first := w.take(w.open(believerScheme, ways.addrs(), lastingTTL))
		next := w.wait(w.open(believerScheme, cluster.Endpoints(), lastingTTL), 1)
		defer ways.silence(proxy.All)()
		w.mustOverlap(next.granted(), first)
	})
	t.Run("counting from the answer is seen", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		ways := newWays(t, cluster.Endpoints())
		key := etcdstore.LineKey(w.name) + "naive"
		cutOff := newNaive(t, ways.addrs(), key, lastingTTL)
		w.must(cutOff.take(t.Context()))
		first, err := w.testify("cut off", 0, cutOff.believes)
		w.must(err)
		renewed := make(chan error, 1)
		defer ways.lateThenLost(lastingTTL, func() {
			go func() { renewed <- cutOff.renew(t.Context()) }()
			await(t, "the renewal was answered", func() bool { return ways.held(proxy.Down) > 0 })
		})()
		w.must(<-renewed)
		ctx, cancel := context.WithTimeout(t.Context(), faultPatience)
		defer cancel()
		other := newNaive(t, cluster.Endpoints(), key, lastingTTL)
		w.must(other.take(ctx))
		second, err := w.testify("other", 0, other.believes)
		w.must(err)
		w.mustOverlap(second, first)
	})
}
