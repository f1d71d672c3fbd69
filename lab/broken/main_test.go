package broken_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/broken"
)

// playerEnv makes this program the process of a player.
const playerEnv = "HOLDFAST_LAB_PLAYER"

// atOnce is how many plays run at once. They wait most of the time.
const atOnce = "10"

// TestMain runs the tests, or a player. Stores warn of what the schedules do to their servers, which is what they
// should.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if os.Getenv(playerEnv) == "" {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err)
		}
		testkit.Main(m) // the command line may say otherwise
	}
	if err := broken.Perform(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// newLab is a lab whose players run this program.
func newLab(t *testing.T) *broken.Lab {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lab := &broken.Lab{Leniency: 3, Command: func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self)
		// With the race detector it would linger at its end for a second.
		cmd.Env = append(os.Environ(), playerEnv+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
		return cmd
	}}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}
