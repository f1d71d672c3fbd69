//go:build unix

package consulstore_test

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
func testStoppedHolder(t *testing.T, c *servers.ConsulServers) {
	for name, scheme := range map[string]string{"notices": "consul", "a believer is seen": believerScheme} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, c)
			var gate fence.Gate
			h := w.StartHolder(w.url(scheme, lastingTTL))
			w.Must(gate.Enter(h.Token))
			next := w.wait(w.open("consul", lastingTTL), 1)
			w.Must(h.Signal(syscall.SIGSTOP))
			second := next.Granted()
			w.Must(gate.Enter(second.Token()))
			w.Must(h.Signal(syscall.SIGCONT))
			if scheme == believerScheme {
				testkit.Await(t, "the checkers see that two hold", func() bool {
					overlaps, _ := w.Findings()
					return len(overlaps) > 0
				})
				return
			}
			h.AwaitLost()
			if err := gate.Enter(h.Token); !errors.Is(err, holdfast.ErrStale) {
				t.Errorf("the fence says %v to a late write, want %v", err, holdfast.ErrStale)
			}
			w.MustExclude(second)
		})
	}
}
