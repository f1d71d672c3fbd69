package etcdstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// takings are how an operator takes a lock away from who holds it and is well.
var takings = []struct {
	name string
	take func(w *witness, held *testimony)
}{
	{"key deleted", func(w *witness, _ *testimony) {
		_, err := w.client.Delete(w.Context(), w.line()[0])
		w.must(err)
	}},
	{"claim broken", func(w *witness, held *testimony) {
		w.must(w.open("etcd", w.cluster.Endpoints(), longTTL).Break(w.Context(), w.name, held.Token()))
	}},
	{"session revoked", func(w *witness, _ *testimony) {
		answer, err := w.client.Get(w.Context(), w.line()[0])
		w.must(err)
		_, err = w.client.Revoke(w.Context(), clientv3.LeaseID(answer.Kvs[0].Lease))
		w.must(err)
	}},
}

// TestTakenAway takes a lock away under a session that lives on. Its holder notices it soon, and long before the next
// renewal. If the client's watches lag behind while its session is renewed, the claim is not extended: the next renewal finds
// out, and the client's other locks stay. One who does not listen is seen.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	for _, taking := range takings {
		t.Run(taking.name, func(t *testing.T) {
			t.Parallel()
			newWitness(t, cluster).takenAway(taking.take)
		})
		t.Run(taking.name+", watch lags", func(t *testing.T) {
			t.Parallel()
			newWitness(t, cluster).takenAwayUnseen(taking.take, taking.name == "session revoked")
		})
		t.Run(taking.name+", a believer is seen", func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, cluster)
			held := w.take(w.open(believerScheme, cluster.Endpoints(), lastingTTL))
			taking.take(w, held)
			if noticed(held, lastingTTL) {
				t.Error("a believer has noticed")
			}
			next := w.take(w.open("etcd", cluster.Endpoints(), lastingTTL))
			w.mustOverlap(next, held)
		})
	}
}

func (w *witness) takenAway(take func(*witness, *testimony)) {
	w.Helper()
	const about = 200 * time.Millisecond
	locks := w.open("etcd", w.cluster.Endpoints(), longTTL)
	quickest := time.Hour // on a machine that is busy, one of a few is quick
	for try := 0; quickest > about && try < 20; try++ {
		held := w.take(locks)
		take(w, held)
		began := time.Now()
		if !noticed(held, soon) {
			w.Fatal("the lock was taken away, and its holder has not noticed")
		}
		quickest = min(quickest, time.Since(began))
		w.mustLose(held)
	}
	w.Logf("noticed after %v", quickest)
	if quickest > about {
		w.Errorf("the lock was taken away, and its holder noticed it after %v, want %v", quickest, about)
	}
}

func (w *witness) takenAwayUnseen(take func(*witness, *testimony), withSession bool) {
	w.Helper()
	const ttl = 6 * time.Second
	valve := newValve()
	locks := w.openThrough(w.cluster.Endpoints(), ttl, grpc.WithChainStreamInterceptor(valve.intercept))
	held := w.take(locks)
	other, err := locks.Mutex(w.name + " too").Lock(w.Context())
	w.must(err)
	defer valve.hold()()
	take(w, held)
	until, otherUntil := held.Until(), other.Until()
	if noticed(held, ttl/30) {
		w.Log("a renewal was just under way") // it is not the watch that tells
	} else if !noticed(held, time.Until(until)) {
		w.Error("the lock was taken away, and its holder believes in it longer than it was known to be held")
	}
	if cause := context.Cause(held.Context()); !strings.Contains(fmt.Sprint(cause), "no longer has it") {
		w.Errorf("the holder has lost the lock because %v, want the store's word", cause)
	}
	if withSession {
		await(w, "the other lock is lost", func() bool { return other.Err() != nil })
		return
	}
	await(w, "the other lock is renewed", func() bool { return other.Until().After(otherUntil.Add(ttl / 10)) })
	w.must(other.Unlock(w.Context()))
}

// noticed says whether the holder learns in so long that it has lost the lock.
func noticed(held *testimony, d time.Duration) bool {
	select {
	case <-held.done:
		return true
	case <-time.After(d):
		return false
	}
}
