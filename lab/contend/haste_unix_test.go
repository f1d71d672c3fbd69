//go:build unix

package contend

import (
	"context"
	"syscall"
	"testing"
	"time"
)

// A process that does not end is killed when the caller does not want to wait any more. This one stands still: nothing
// else ends it.
func TestStopInHaste(t *testing.T) {
	c := startCrowd(t, sqliteURL(t))
	process := c.processes[0].Cmd.Process
	must(t, process.Signal(syscall.SIGSTOP))
	defer time.AfterFunc(patience/3, func() { _ = process.Signal(syscall.SIGCONT) }).Stop() // then it has ended well
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Stop(ctx); err == nil {
		t.Error("a process that was killed has ended well")
	}
}
