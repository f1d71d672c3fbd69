//go:build unix

package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// coordinatorEnv makes this binary the coordinator of a round that is about to be orphaned.
const coordinatorEnv = "HOLDFAST_TEST_DEMO_COORDINATOR"

// TestOrphans kills the coordinator while one worker is stopped and others wait. All of them must end by themselves.
// They have inherited a pipe: when its other end sees the end of it, they are all gone.
func TestOrphans(t *testing.T) {
	t.Parallel()
	alive, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	coordinator := exec.Command(os.Args[0])
	coordinator.Env = append(os.Environ(), coordinatorEnv+"="+t.TempDir())
	coordinator.ExtraFiles = []*os.File{inherited}
	out, err := coordinator.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := coordinator.Start(); err != nil {
		t.Fatal(err)
	}
	inherited.Close()
	says := bufio.NewScanner(out)
	if !says.Scan() || says.Text() != "stopped" {
		t.Errorf("the coordinator says %q", says.Text())
	}
	if err := coordinator.Process.Kill(); err != nil {
		t.Error(err)
	}
	coordinator.Wait() //nolint:errcheck // it was killed

	if err := alive.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := alive.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("a worker has outlived its coordinator: %v", err)
	}
}

// coordinate runs a round with the naive lock in folder, and says when a worker is stopped.
func coordinate(folder string) error {
	r := &run{pausable: true, folder: folder, Plan: &Plan{Items: 20, Workers: 4, Command: func(ctx context.Context) *exec.Cmd {
		cmd := workerCommand(ctx)
		cmd.Env = append(cmd.Env, coordinatorEnv+"=")
		cmd.ExtraFiles = []*os.File{os.NewFile(3, "inherited")}
		return cmd
	}}}
	r.screen = &spy{lines: lines{out: io.Discard}, fate: stopped, seen: func() { fmt.Println("stopped") }}
	return r.naive().run(context.Background())
}

func init() {
	if folder := os.Getenv(coordinatorEnv); folder != "" {
		fmt.Println(coordinate(folder)) // it is killed before it comes to this
		os.Exit(1)
	}
}
