package verify

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/holdfast-go/holdfast/etcdstore"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/report"
	_ "github.com/holdfast-go/holdfast/redisstore"
	_ "github.com/holdfast-go/holdfast/sqlstore/postgres"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite"
	_ "github.com/holdfast-go/holdfast/zkstore"
)

// workerEnv makes this binary a worker instead of the tests.
const workerEnv = "HOLDFAST_TEST_VERIFY_WORKER"

// This binary has a lock that goes on believing, whatever it hears.
func init() { testkit.RegisterBeliever() }

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

// newPlan is a short run of this URL, with these faults.
func newPlan(t *testing.T, url string, length time.Duration, faults ...string) *Plan {
	t.Helper()
	return &Plan{
		Store: url, Time: length, Seed: 1, Workers: 3, Faults: faults,
		Command: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), workerEnv+"=1")
			return cmd
		},
		Tell: func(e Event) { t.Logf("%8v %s", e.At.Round(time.Millisecond), e.Text) },
	}
}

// fileURL is a store in a file, with a ttl that pauses need not be long for.
func fileURL(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "locks.db") + "?ttl=600ms"
}

// redisURL is a store of this scheme on a Redis server, with such a ttl.
func redisURL(t *testing.T, scheme string) string {
	t.Helper()
	return scheme + "://" + servers.Redis(t).Addr() + "?ttl=600ms"
}

// run carries a plan out, which takes not much longer than it says.
func run(t *testing.T, p *Plan) *report.Run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), p.Time+3*time.Minute)
	defer cancel()
	r, err := Run(ctx, p)
	testkit.Must(t, err)
	return r
}

// mustHold demands that all checks have judged something and found nothing.
func mustHold(t *testing.T, r *report.Run) {
	t.Helper()
	if r.Verdict() == report.Held {
		return
	}
	for _, c := range r.Checks {
		if c.Calibration || c.Judged > 0 && len(c.Findings) == 0 {
			continue
		}
		t.Errorf("%s: judged %d", c.Name, c.Judged)
		for _, f := range c.Findings[:min(3, len(c.Findings))] {
			t.Errorf("%s: %s: %v", c.Name, f.Text, f.Holds)
		}
	}
}

// figure is the figure of this name.
func figure(t *testing.T, r *report.Run, name string) float64 {
	t.Helper()
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	t.Fatalf("there is no figure %q", name)
	return 0
}

// findings is how many findings the check of this name has.
func findings(r *report.Run, name string) int {
	for _, c := range r.Checks {
		if c.Name == name {
			return len(c.Findings)
		}
	}
	return -1
}
