package contend

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// A store that locks has no findings, also when one of the processes is killed.
func TestCrowd(t *testing.T) {
	url := sqliteURL(t) + "?ttl=5s"
	c := startCrowd(t, url, url)
	through(t, c)
	must(t, c.Kill(0))
	through(t, c)
	o := stop(t, c)
	for _, finding := range o.Findings() {
		t.Error(finding)
	}
	if len(o.Reports) != 1 || o.Reports[0].Process != "process 1" {
		t.Errorf("the reports are %+v, want one of process 1", o.Reports)
	}
	total := o.Total()
	if total.Acquired < 8 || len(total.Faults)+len(total.Wrong) != 0 {
		t.Errorf("%+v: want two rounds of four goroutines, and nothing else", total)
	}
	who, what := map[string]int{}, map[history.Kind]int{}
	for _, h := range o.Holds {
		who[h.Process]++
		what[h.Kind]++
	}
	if len(who) != 2 || who["process 1"] < total.Acquired-total.Lost { // what is lost at once is not even begun
		t.Errorf("holds by %v, want all of process 1 (%+v) and those of process 0 before it was killed", who, total)
	}
	if kinds := slices.Sorted(maps.Keys(what)); len(o.Holds) > 200 && len(kinds) != 3 {
		t.Errorf("of %d holds all are of the kinds %v", len(o.Holds), kinds)
	}
}

// Between processes, the store in memory locks nothing. That must be seen.
func TestNoLock(t *testing.T) {
	c := startCrowd(t, "memory:", "memory:")
	found := map[check.Rule]bool{}
	for range 20 {
		through(t, c)
	}
	for _, f := range stop(t, c).Findings() {
		found[f.Rule] = true
	}
	for _, rule := range []check.Rule{check.Exclusion, check.Order} {
		if !found[rule] {
			t.Errorf("nothing breaks the rule of %s", rule)
		}
	}
}

// Whoever does not get a lock any more is missed.
func TestSomebodyIsStuck(t *testing.T) {
	url := sqliteURL(t)
	locks, err := holdfast.Open(t.Context(), url)
	must(t, err)
	defer locks.Close()
	c := startCrowd(t, url)
	through(t, c)
	lease, err := locks.Mutex("mutex 0").Lock(t.Context())
	must(t, err)
	for err = nil; err == nil; { // sooner or later somebody asks for that one
		err = c.Through(within(t, time.Second))
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one of the locks is never free, and what comes of it is: %v", err)
	}
	must(t, lease.Unlock(t.Context()))
	through(t, c)
	stop(t, c)
}

// A process that ends by itself is missed too.
func TestProcessEnds(t *testing.T) {
	url := sqliteURL(t) + "?ttl=1s" // what it holds must not be in the way of the other for long
	c := startCrowd(t, url, url)
	must(t, c.processes[1].Cmd.Process.Kill())
	if err := c.Through(within(t, patience)); err == nil || !strings.Contains(err.Error(), "process 1") {
		t.Errorf("process 1 has ended, and yet: %v", err)
	}
	o, err := c.Stop(within(t, patience))
	if err == nil || !strings.Contains(err.Error(), "process 1") {
		t.Errorf("process 1 has ended, and yet: %v", err)
	}
	if len(o.Reports) != 1 {
		t.Errorf("%d reports, want that of process 0", len(o.Reports))
	}
}

func TestBadPlans(t *testing.T) {
	for name, p := range map[string]Plan{
		"no process":   {Goroutines: 1},
		"no goroutine": {URLs: []string{"memory:"}},
		"no store":     {URLs: []string{"nosuchstore:"}, Goroutines: 1, Dir: t.TempDir()},
		"no folder":    {URLs: []string{"memory:"}, Goroutines: 1, Dir: t.TempDir() + "/none"},
	} {
		if c, err := Start(within(t, patience), p); err == nil {
			t.Errorf("%s: it starts", name)
			c.Close()
		}
	}
}
