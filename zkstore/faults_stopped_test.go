//go:build unix

package zkstore_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A process that holds a lock is stopped for longer than its session, and goes on. It sees the loss, and what it writes
// late is refused by a fence. A store that does not notice is stopped too: the checkers see it.
func testStoppedHolder(t *testing.T, e *servers.ZooKeeperServers) {
	t.Run("notices", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, e)
		var gate fence.Gate
		h := w.StartHolder(storeURL("zk", lastingTTL, e.Endpoints()...))
		w.Must(gate.Enter(h.Token))
		second := w.stop(h)
		w.Must(gate.Enter(second.Token()))
		w.Must(h.Signal(syscall.SIGCONT))
		h.AwaitLost()
		if err := gate.Enter(h.Token); !errors.Is(err, holdfast.ErrStale) {
			t.Errorf("the fence says %v to a late write, want %v", err, holdfast.ErrStale)
		}
		w.MustExclude(second)
	})
	t.Run("a believer is seen", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, e)
		h := w.StartHolder(storeURL(believerScheme, lastingTTL, e.Endpoints()...))
		second := w.stop(h)
		w.Must(h.Signal(syscall.SIGCONT))
		testkit.Await(t, "the checkers see that two hold", func() bool {
			overlaps, _ := w.Findings()
			return len(overlaps) > 0
		})
		second.End()
	})
}

// stop stops a holder, until the next has got the lock.
func (w *witness) stop(h *testkit.Holder) *testkit.Hold {
	w.Helper()
	next := w.wait(w.open("zk", lastingTTL), 1)
	w.Must(h.Signal(syscall.SIGSTOP))
	return next.Granted()
}
