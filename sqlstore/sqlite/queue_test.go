//go:build unix

package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func init() { childJobs["busy"] = childBusy }

// stop stops a child, and waits until it stands still.
func stop(t *testing.T, c *child) {
	t.Helper()
	check(t, c.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it is not stopped: %v, %v", status, err)
	}
}

// TestStoppedInTheQueue: a process is stopped while it is first in the queue for a busy file. When the file is free,
// all others are served all the same.
func TestStoppedInTheQueue(t *testing.T) {
	path := newPath(t)
	e := open(t, path)
	leave := occupied(t, visit(t, path))
	h := startHolder(t, path, "y", long)
	eventually(t, "it is in the queue", (&queue{folder: e.notifier.folder}).busy)
	stop(t, h)
	joined := joinLater(t.Context(), e, newClaim("x"))
	waitForJobs(t, e, 1)
	eventually(t, "it waits in the queue", func() bool {
		e.queue.mu.Lock()
		defer e.queue.mu.Unlock()
		return e.queue.granted != nil
	})
	leave()
	for n := range 20 { // the queue is waited for once, and not by each call
		select {
		case err := <-joined:
			check(t, err)
		case <-time.After(5 * time.Second):
			t.Fatal("it waits for a process that is stopped")
		}
		joined = joinLater(t.Context(), e, newClaim(fmt.Sprint("x", n)))
	}
	check(t, <-joined)
	check(t, h.Process.Signal(syscall.SIGCONT))
	h.token(t)
}

// TestTwoFilesTwoQueues: files in one folder have nothing to do with each other, nor has a program that locks the
// folder.
func TestTwoFilesTwoQueues(t *testing.T) {
	path := newPath(t)
	a, b := open(t, path), open(t, path+"2")
	folder, err := os.Open(filepath.Dir(path))
	check(t, err)
	defer folder.Close()
	check(t, lockFolder(folder))
	for _, e := range []*engine{a, b} {
		if others, _ := e.queue.enter(); others || !e.queue.wait(0, nil) {
			t.Errorf("others %v, or not first", others)
		}
		t.Cleanup(e.queue.leave)
	}
}

// busyFor is how long a busy child works.
const busyFor = 3 * time.Second

// childBusy takes and releases a lock of its own again and again, and prints when each step began and ended.
func childBusy(args []string) error {
	ctx := context.Background()
	locks, err := holdfast.Open(ctx, "sqlite:"+args[0])
	if err != nil {
		return err
	}
	defer locks.Close()
	mutex := locks.Mutex(args[1])
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for start := time.Now(); time.Since(start) < busyFor; {
		began := time.Now()
		lease, err := mutex.Lock(ctx)
		if err != nil {
			return err
		}
		if err := lease.Unlock(ctx); err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, began.UnixNano(), time.Now().UnixNano())
	}
	return nil
}

// A step is when a busy child began to take its lock, and when it had released it.
type step struct{ began, ended int64 }

// TestBusyProcessesAreServedInOrder: of eight processes that use one file without a pause, each that has just been
// served could be the first to ask again. None is overtaken many times by any other.
func TestBusyProcessesAreServedInOrder(t *testing.T) {
	path := newPath(t)
	open(t, path)
	const processes = 8
	outputs := make([]bytes.Buffer, processes)
	var cmds []*exec.Cmd
	for i := range processes {
		cmd := childCommand(t, "busy", path, fmt.Sprint("own ", i))
		cmd.Stdout = &outputs[i]
		check(t, cmd.Start())
		cmds = append(cmds, cmd)
	}
	all := make([][]step, processes)
	for i, cmd := range cmds {
		check(t, cmd.Wait())
		for {
			var s step
			if _, err := fmt.Fscan(&outputs[i], &s.began, &s.ended); err != nil {
				break
			}
			all[i] = append(all[i], s)
		}
	}
	most, longest, steps := 0, time.Duration(0), 0
	for i := range all {
		for _, s := range all[i] {
			steps++
			longest = max(longest, time.Duration(s.ended-s.began))
			for j := range all {
				if j != i {
					most = max(most, within(s, all[j]))
				}
			}
		}
	}
	t.Logf("%d steps; the longest took %v; during one step another process did up to %d", steps, longest, most)
	if most > 400 {
		t.Errorf("a process was overtaken %d times by another one", most)
	}
	if steps < 100 {
		t.Errorf("%d steps in all", steps)
	}
}

// within counts the steps that another process began and ended during s.
func within(s step, others []step) int {
	first := sort.Search(len(others), func(i int) bool { return others[i].began > s.began })
	last := sort.Search(len(others), func(i int) bool { return others[i].ended >= s.ended })
	return max(0, last-first)
}
