//go:build unix

package etcdstore_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestStoppedHolder stops the process that holds a lock for longer than its lease, and lets it go on.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	// It sees the loss before it does anything else. What it writes without looking is refused by a fence, and by etcd itself.
	t.Run("writes late", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		var gate fence.Gate
		h := w.startHolder("etcd", lastingTTL)
		w.Must(gate.Enter(h.token))
		second := w.stop(h)
		if err := gate.Enter(h.token); err != nil {
			t.Errorf("before the next has come, the fence says %v", err)
		}
		w.Must(gate.Enter(second.Token()))
		w.Must(h.cmd.Process.Signal(syscall.SIGCONT))
		h.hear("lost")
		_, err := fmt.Fprintln(h.in)
		w.Must(err)
		late := h.hear("wrote")
		if late.Written {
			t.Error("etcd let a late write pass")
		}
		if err := gate.Enter(late.Token); !errors.Is(err, holdfast.ErrStale) {
			t.Errorf("the fence says %v to a late write, want %v", err, holdfast.ErrStale)
		}
		w.MustExclude(second)
	})
	t.Run("a believer is seen", func(t *testing.T) {
		t.Parallel()
		w := newWitness(t, cluster)
		h := w.startHolder(believerScheme, lastingTTL)
		second := w.stop(h)
		w.Must(h.cmd.Process.Signal(syscall.SIGCONT))
		testkit.Await(t, "the checkers see that two hold", func() bool {
			overlaps, _ := w.Findings()
			return len(overlaps) > 0
		})
		second.End()
	})
}

// stop stops a holder, until the next has got the lock.
func (w *witness) stop(h *holder) *testkit.Hold {
	w.Helper()
	next := w.wait(w.open("etcd", w.cluster.Endpoints(), lastingTTL), 1)
	w.Must(h.cmd.Process.Signal(syscall.SIGSTOP))
	return next.Granted()
}
