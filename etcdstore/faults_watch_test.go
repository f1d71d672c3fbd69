package etcdstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// takings are how an operator takes a lock away from who holds it and is well.
var takings = []struct {
	name string
	take func(w *witness, held *testkit.Hold)
}{
	{"key deleted", func(w *witness, _ *testkit.Hold) {
		_, err := w.client.Delete(w.Context(), w.Queue()[0])
		w.Must(err)
	}},
	{"claim broken", func(w *witness, held *testkit.Hold) {
		w.Must(w.OpenLong().Break(w.Context(), w.Mutex, held.Token()))
	}},
	{"session revoked", func(w *witness, _ *testkit.Hold) {
		answer, err := w.client.Get(w.Context(), w.Queue()[0])
		w.Must(err)
		_, err = w.client.Revoke(w.Context(), clientv3.LeaseID(answer.Kvs[0].Lease))
		w.Must(err)
	}},
}

// TestTakenAway takes a lock away under a session that lives on. Its holder notices it soon, and long before the next
// renewal. If the client's watches lag behind while its session is renewed, the claim is not extended: the next renewal
// finds out, and the client's other locks stay. One who does not listen is seen.
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
			held := w.Take(w.OpenAt(believerScheme, lastingTTL))
			taking.take(w, held)
			if held.EndsIn(lastingTTL) {
				t.Error("a believer has noticed")
			}
			next := w.Take(w.OpenLasting())
			w.MustOverlap(next, held)
		})
	}
}

func (w *witness) takenAway(take func(*witness, *testkit.Hold)) {
	w.Helper()
	const about = 200 * time.Millisecond
	locks := w.OpenLong()
	quickest := time.Hour // on a machine that is busy, one of a few is quick
	for try := 0; quickest > about && try < 20; try++ {
		held := w.Take(locks)
		take(w, held)
		began := time.Now()
		if !held.EndsIn(soon) {
			w.Fatal("the lock was taken away, and its holder has not noticed")
		}
		quickest = min(quickest, time.Since(began))
		w.MustLose(held, soon, "")
	}
	w.Logf("noticed after %v", quickest)
	if quickest > about {
		w.Errorf("the lock was taken away, and its holder noticed it after %v, want %v", quickest, about)
	}
}

func (w *witness) takenAwayUnseen(take func(*witness, *testkit.Hold), withSession bool) {
	w.Helper()
	const ttl = 6 * time.Second
	valve := newValve()
	locks := w.openThrough(w.cluster.Endpoints(), ttl, grpc.WithChainStreamInterceptor(valve.intercept))
	held := w.Take(locks)
	other, err := locks.Mutex(w.Mutex + " too").Lock(w.Context())
	w.Must(err)
	defer valve.hold()()
	take(w, held)
	until, otherUntil := held.Until(), other.Until()
	if held.EndsIn(ttl / 30) {
		w.Log("a renewal was just under way") // it is not the watch that tells
	} else if !held.EndsIn(time.Until(until)) {
		w.Error("the lock was taken away, and its holder believes in it longer than it was known to be held")
	}
	if cause := context.Cause(held.Context()); !strings.Contains(fmt.Sprint(cause), "no longer has it") {
		w.Errorf("the holder has lost the lock because %v, want the store's word", cause)
	}
	if withSession {
		testkit.Await(w, "the other lock is lost", func() bool { return other.Err() != nil })
		return
	}
	testkit.Await(w, "the other lock is renewed", func() bool { return other.Until().After(otherUntil.Add(ttl / 10)) })
	w.Must(other.Unlock(w.Context()))
}
