//go:build unix

package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaks"
)

// coordinatorEnv makes this binary the coordinator of a round that is about to be orphaned.
const coordinatorEnv = "HOLDFAST_TEST_DEMO_COORDINATOR"

// TestOrphans kills the coordinator while one worker is stopped and others wait. All of them must end by themselves.
func TestOrphans(t *testing.T) {
	t.Parallel()
	leaks.Orphans(t, "stopped", func(inherited *os.File) *exec.Cmd {
		coordinator := exec.Command(os.Args[0])
		coordinator.Env = append(os.Environ(), coordinatorEnv+"="+t.TempDir())
		coordinator.ExtraFiles = []*os.File{inherited}
		return coordinator
	})
}

// coordinate runs a round with the naive lock in folder, and says when a worker is stopped.
func coordinate(folder string) error {
	r := &run{
		pausable: true,
		folder:   folder,
		Plan: &Plan{Items: 20, Workers: 4, Command: func(ctx context.Context) *exec.Cmd {
			cmd := workerCommand(ctx)
			cmd.Env = append(cmd.Env, coordinatorEnv+"=")
			cmd.ExtraFiles = []*os.File{os.NewFile(3, "inherited")}
			return cmd
		}},
	}
	r.screen = &spy{lines: lines{out: io.Discard}, fate: stopped, seen: func() { fmt.Println("stopped") }}
	return r.naive().run(context.Background())
}

func init() {
	if folder := os.Getenv(coordinatorEnv); folder != "" {
		fmt.Println(coordinate(folder)) // it is killed before it comes to this
		os.Exit(1)
	}
}
