//go:build unix

package testkit

import (
	"errors"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// TestStoppedHolder stops a process that holds a lock for longer than its session, and resumes it. It sees the loss,
// and a fence rejects its late write. After that, also may demand more of it. A store that does not notice is stopped
// too, and the checkers see it.
func (c *Cluster) TestStoppedHolder(t *testing.T, also func(*testing.T, *Holder)) {
	t.Helper()
	for name, scheme := range map[string]string{"notices": c.Scheme, "a believer is seen": c.Believer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := c.NewWitness(t)
			var gate fence.Gate
			h := w.StartHolder(w.URL(scheme, c.LastingTTL))
			w.Must(gate.Enter(h.Token))
			next := w.WaitBehind(1, w.OpenLasting())
			w.Must(h.Signal(syscall.SIGSTOP))
			second := next.Granted()
			if err := gate.Enter(h.Token); err != nil {
				t.Errorf("before the next holder has come, the fence returns %v", err)
			}
			w.Must(gate.Enter(second.Token()))
			w.Must(h.Signal(syscall.SIGCONT))
			if scheme == c.Believer {
				Await(t, "the checkers see two holders", func() bool {
					overlaps, _ := w.Findings()
					return len(overlaps) > 0
				})
				second.End()
				return
			}
			h.AwaitLost()
			if err := gate.Enter(h.Token); !errors.Is(err, holdfast.ErrStale) {
				t.Errorf("the fence returns %v for a late write, want %v", err, holdfast.ErrStale)
			}
			if also != nil {
				also(t, h)
			}
			w.MustExclude(second)
		})
	}
}
