package etcdstore_test

import (
	"testing"
	"time"
)

// promised is how long after a holder's death the next is granted at worst.
func (w *witness) promised(ttl time.Duration) time.Duration {
	w.Helper()
	abilities := openAt(w, storeURL("etcd", w.cluster.Endpoints(), ttl)).Abilities()
	return time.Duration(abilities.TakeoverTTLs)*ttl + abilities.TakeoverPlus
}

// TestKilledHolder kills the process that holds a lock. The next is granted when the ttl has passed, and within the time that
// Abilities promises, also if etcd's leader goes just before it would have noticed: the new one counts the ttl from the
// beginning.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		newWitness(t, newCluster(t)).takeOver(lastingTTL, func() {})
	})
	t.Run("and the leader", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, newCluster(t))
		w.takeOver(2*sessionTTL, func() {
			leader, err := w.cluster.Leader()
			w.Must(err)
			time.Sleep(sessionTTL) // half of the ttl: the leader has counted in vain
			w.Must(leader.Kill())
		})
	})
}

// takeOver kills a holder, and does something else, while somebody waits.
func (w *witness) takeOver(ttl time.Duration, also func()) {
	w.Helper()
	promised := w.promised(ttl)
	h := w.startHolder("etcd", ttl)
	next := w.wait(w.open("etcd", w.cluster.Endpoints(), ttl), 1)
	killed := time.Now()
	h.kill()
	also()
	second := next.Granted()
	took := time.Since(killed)
	w.Logf("granted after %v, promised within %v", took, promised)
	// It was renewed about a third of the ttl before it was killed, or somewhat longer on a machine that is busy.
	if took < ttl/4 || took > promised {
		w.Errorf("the lock of a holder with a ttl of %v was free %v after it was killed, and %v is promised", ttl, took, promised)
	}
	w.MustExclude(second)
}
