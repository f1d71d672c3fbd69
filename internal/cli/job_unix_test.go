//go:build unix

package cli

import (
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A slowGrip takes its time to say whether it is held. Whoever acts before he has asked is seen to.
type slowGrip struct{ *fakeGrip }

func (g slowGrip) Err() error {
	time.Sleep(100 * time.Millisecond) // no synchronisation: the time in which what must not happen would
	return g.fakeGrip.Err()
}

// TestLeaseFirst continues a stopped command whose lease is over. It must be killed before it runs again, and so the
// lease has to be asked before the signal is passed on.
func TestLeaseFirst(t *testing.T) {
	for name, lost := range map[string]bool{"lost": true, "held": false} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ran")
			g := newFakeGrip(time.Hour)
			defer g.end(nil)
			j := &job{
				run:     &run{app: &app{stderr: io.Discard}, runFlags: &runFlags{}, names: []string{"x"}},
				watch:   &watch{grip: slowGrip{g}, notice: notice{killAfter: time.Hour, grace: time.Hour}},
				signals: make(chan os.Signal, 64),
			}
			pid, err := syscall.ForkExec(
				"/bin/sh",
				[]string{"sh", "-c", "kill -STOP $$; : > " + file},
				&syscall.ProcAttr{
					Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
				},
			)
			check(t, err)
			c := newChild(j, nil)
			c.group = pid
			defer c.flushMessages()
			for deadline := time.Now().Add(10 * time.Second); !c.stopped; time.Sleep(time.Millisecond) {
				if _, ended := c.reap(); ended || time.Now().After(deadline) {
					t.Fatal("it did not stop")
				}
			}
			signal.Notify(j.signals, syscall.SIGCHLD)
			defer signal.Stop(j.signals)
			if lost {
				g.end(nil)
			}
			j.signals <- syscall.SIGCONT
			status := c.supervise()
			_, err = os.Stat(file)
			if ran := err == nil; ran == lost || status.Signaled() != lost {
				t.Errorf("the command ran: %v, and ended with %v", ran, status)
			}
		})
	}
}
