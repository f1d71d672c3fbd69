package verify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/report"
)

// Workers on a file are paused, killed and starved. Everything holds, and nothing is left in the store or on the disk.
func TestFile(t *testing.T) {
	url := fileURL(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	r := run(t, newPlan(t, url, 5*time.Second, "pause", "kill", "starve"))
	mustHold(t, r)
	for _, name := range []string{"pause", "kill", "starve"} {
		if !slices.ContainsFunc(
			r.Faults,
			func(f report.Fault) bool { return f.Name == name && f.Proof != "" && f.Target != "" },
		) {
			t.Errorf("the fault %s was not done; done are %v", name, r.Faults)
		}
	}
	locks, err := holdfast.Open(t.Context(), url)
	testkit.Must(t, err)
	defer locks.Close()
	for name, err := range locks.Names(t.Context(), "") {
		t.Errorf("%q is left in the store: %v", name, err)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) > 0 {
		t.Errorf("left on the disk: %v, %v", left, err)
	}
}

// tries is how often a test runs that needs a pause to hit.
const tries = 4

// Writers are paused before their writes. The register without a fence loses updates, and the one with a fence none.
func TestCalibration(t *testing.T) {
	t.Parallel()
	var lost, refused float64
	url := redisURL(t, "redis")
	for try := range tries {
		p := newPlan(t, url, 5*time.Second, "pause-writer")
		p.Seed = uint64(3 + try) // the first strikes of these are at both registers
		r := run(t, p)
		mustHold(t, r)
		if n := figure(t, r, "updates lost behind the fence"); n != 0 {
			t.Errorf("%v updates are lost behind the fence", n)
		}
		n := figure(t, r, "updates lost without a fence")
		if (n > 0) != (findings(r, "register without a fence") > 0) {
			t.Errorf("%v updates are lost without a fence, and %d are found", n,
				findings(r, "register without a fence"))
		}
		lost += n
		if refused += figure(t, r, "updates refused by the fence"); lost > 0 && refused > 0 {
			return
		}
	}
	t.Errorf("%v updates are lost without a fence, and the fence has refused %v", lost, refused)
}

// A lock that goes on believing does not survive a pause, and that is found.
func TestBrokenLock(t *testing.T) {
	t.Parallel()
	url := redisURL(t, "believer")
	for try := range tries {
		p := newPlan(t, url, 5*time.Second, "pause", "pause-writer")
		p.Seed = uint64(try)
		if r := run(t, p); r.Verdict() == report.Broken && findings(r, "mutual exclusion") > 0 {
			return
		}
	}
	t.Errorf("%d runs have found nothing", tries)
}

// Servers of verify's own are broken in ways that their stores survive.
func TestOwnServers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, program string
		faults        []string
	}{
		{"redis", "redis-server", []string{"server-kill", "server-stop", "client-kill", "script-flush", "late"}},
		{"postgres", "postgres", []string{"server-kill", "server-stop", "backends-end", "cut"}},
		{"etcd", "etcd", []string{"leader-kill", "majority-stop", "leader-stop", "silence"}},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			servers.Need(t, test.program)
			p := newPlan(t, "", 8*time.Second, test.faults...)
			p.Servers = test.kind
			r := run(t, p)
			mustHold(t, r)
			if len(r.Faults) == 0 {
				t.Error("no fault was done")
			}
		})
	}
}

// A store that cannot be reached, and a fault that there is not, are errors before anything is done.
func TestCannotBeRun(t *testing.T) {
	t.Parallel()
	nobody := newPlan(t, "redis://"+testkit.Nobody(t), time.Second)
	if _, err := Run(t.Context(), nobody); err == nil || !strings.Contains(err.Error(), "it cannot be reached") {
		t.Errorf("a store that is not there: %v", err)
	}
	unknown := newPlan(t, fileURL(t), time.Second, "cut")
	_, err := Run(t.Context(), unknown)
	if _, ok := errors.AsType[*UsageError](err); !ok || !strings.Contains(err.Error(), "pause-writer") {
		t.Errorf("a fault that a file does not have: %v", err)
	}
	for _, change := range []func(*Plan){
		func(p *Plan) { p.Workers = 1 },
		func(p *Plan) { p.Time = 0 },
		func(p *Plan) { p.Store = "memory:" },
		func(p *Plan) { p.Store = "" },
		func(p *Plan) { p.Servers = "redis" },
		func(p *Plan) { p.Store, p.Servers = "", "abacus" },
	} {
		p := newPlan(t, fileURL(t), time.Second)
		change(p)
		if err := p.Check(); err == nil || !strings.HasPrefix(err.Error(), "holdfast: ") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// A store that refuses the short ttl is opened with its own.
func TestLongSession(t *testing.T) {
	t.Parallel()
	server := servers.ZooKeeper(t)
	s := &stage{plan: &Plan{}, url: "zk://" + server.Addr()} // with a tick that does not allow 2 s
	testkit.Must(t, s.open(t.Context()))
	defer s.Close()
	if s.ttl <= shortTTL || s.ttl != s.can.SessionTTL || s.at.TTL != s.ttl {
		t.Errorf("the ttl is %v, and that of sessions %v", s.ttl, s.can.SessionTTL)
	}
}

// A run that is stopped early still ends its workers and tells what it has seen.
func TestStoppedEarly(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p := newPlan(t, fileURL(t), time.Hour, "pause")
	told := p.Tell
	p.Tell = func(e Event) {
		told(e)
		if e.At > 0 {
			cancel()
		}
	}
	r, err := Run(ctx, p)
	if !errors.Is(err, context.Canceled) || r == nil {
		t.Fatalf("a run that was stopped: %v, %v", r, err)
	}
	if r.Violations() > 0 || r.Operations == 0 {
		t.Errorf("%d violations in %d operations", r.Violations(), r.Operations)
	}
}

// A worker that nobody gives an order says what it is for.
func TestWorkerAlone(t *testing.T) {
	null, err := os.Open(os.DevNull)
	testkit.Must(t, err)
	defer null.Close()
	if err := Work(t.Context(), null, os.Stdout); err == nil || !strings.Contains(err.Error(), "holdfast verify") {
		t.Errorf("a worker without an order: %v", err)
	}
}
