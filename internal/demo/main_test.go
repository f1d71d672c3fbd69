package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	_ "github.com/holdfast-go/holdfast/memstore" // for tests within one process
)

// workerEnv makes this binary a worker instead of the tests.
const workerEnv = "HOLDFAST_TEST_DEMO_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		if err := Work(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testkit.Main(m)
}

// workerCommand runs this binary as a worker. With the race detector it does not linger at its end.
func workerCommand(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
