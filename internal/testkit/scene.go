package testkit

import (
	"context"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/contend"
)

// ScenePatience is how long the processes of a scene may take for anything, since they share two cores with other
// tests.
const ScenePatience = time.Minute

// A Scene is a set of processes that contend for a store's locks while a test injects a fault.
type Scene struct {
	*testing.T
	Dir   string // of the histories
	Crowd *contend.Crowd
	url   string // of the first process
	lost  int    // leases that were lost in Holding
}

// NewScene returns a scene without processes.
func NewScene(t *testing.T) *Scene {
	t.Helper()
	return &Scene{T: t, Dir: Evidence(t)}
}

// Evidence returns a new folder, which is kept if the test fails.
func Evidence(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-faults-") //nolint:usetesting // it must outlive a test that fails
	Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the histories are kept: %s", dir)
			return
		}
		Check(t, os.RemoveAll(dir))
	})
	return dir
}

// Must ends the test if err is not nil.
func (s *Scene) Must(err error) {
	s.Helper()
	Must(s, err)
}

// Within returns a context that ends when the scene has taken too long.
func (s *Scene) Within() context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), ScenePatience)
	s.Cleanup(cancel)
	return ctx
}

// Start starts the processes of a plan and returns when all goroutines have acquired a lock.
func (s *Scene) Start(plan contend.Plan) {
	s.Helper()
	var err error
	plan.Dir, s.url = s.Dir, plan.URLs[0]
	s.Crowd, err = contend.Start(s.Within(), plan)
	s.Must(err)
	s.Cleanup(func() { s.Must(s.Crowd.Close()) })
	s.Through()
}

// Holding injects a fault while a client of this process holds a lock, and notes if its lease is lost: on a slow
// machine, no process of the scene may hold a lock at that moment.
func (s *Scene) Holding(fault func()) {
	s.Helper()
	locks, err := holdfast.Open(s.Context(), s.url)
	s.Must(err)
	lease := Lock(s, locks, "holding")
	fault()
	if lease.Err() != nil {
		s.lost++
	}
	s.Must(locks.Close())
}

// Through waits until every goroutine has acquired a lock that it requested after this call began.
func (s *Scene) Through() {
	s.Helper()
	began := time.Now()
	if err := s.Crowd.Through(s.Within()); err != nil {
		outcome, stopped := s.Crowd.Stop(s.Within())
		s.Fatalf("%v\nstopped: %v\nreports: %+v", err, stopped, outcome.Reports)
	}
	s.Logf("all are through after %v", time.Since(began).Round(time.Millisecond))
}

// An Effect is what a fault does to the processes.
type Effect int

// The effects.
const (
	MayHurt  Effect = iota // calls may fail
	MustHurt               // calls fail, or leases are lost
	Harmless               // no call fails because of it
)

// An Excuse lists the errors that the processes may get.
type Excuse struct {
	Effect  Effect
	Trouble *regexp.Regexp // errors that the fault explains, unless it is harmless
	Slow    *regexp.Regexp // errors that a busy machine explains; nil: none
	Absent  *regexp.Regexp // errors of what the store does not have; nil: none
	Lost    int            // leases that others than the processes have lost
}

// Stop makes all processes release what they hold, and ends them.
func (s *Scene) Stop() *contend.Outcome {
	s.Helper()
	outcome, err := s.Crowd.Stop(s.Within())
	s.Must(err)
	return outcome
}

// CheckErrors checks that the processes got no errors but those with an excuse.
func (s *Scene) CheckErrors(outcome *contend.Outcome, excuse Excuse) {
	s.Helper()
	total := outcome.Total()
	total.Lost += excuse.Lost + s.lost
	s.Logf("%d acquired, %d lost, %d kinds of faults, %d holds", total.Acquired, total.Lost, len(total.Faults),
		len(outcome.Holds))
	if excuse.Effect == MustHurt && total.Lost+len(total.Faults) == 0 {
		s.Error("nobody has felt the fault")
	}
	for text, n := range total.Faults {
		s.Logf("%d times: %s", n, text)
		explained := excuse.Effect != Harmless && excuse.Trouble.MatchString(text)
		if !explained && !matches(excuse.Slow, text) {
			s.Errorf("an error that the fault does not explain, %d times: %s", n, text)
		}
	}
	for text, n := range total.Wrong {
		if !matches(excuse.Absent, text) {
			s.Errorf("an error that must not be, %d times: %s", n, text)
		}
	}
}

func matches(r *regexp.Regexp, text string) bool { return r != nil && r.MatchString(text) }

// CheckNothing reports findings as errors, the first few in full.
func CheckNothing(t testing.TB, findings []check.Finding) {
	t.Helper()
	const few = 5
	for i, finding := range findings {
		if i == few {
			t.Errorf("and %d more", len(findings)-few)
			return
		}
		t.Error(finding)
	}
}

// CheckNothingLeft checks that a server has no state of locks left: now, or when what has a ttl has expired.
func CheckNothingLeft(t testing.TB, ttl time.Duration, left func() []string) {
	t.Helper()
	var last []string
	if !Soon(ttl+10*time.Second, func() bool { last = left(); return len(last) == 0 }) {
		t.Errorf("all have ended, and this is left: %q", last)
	}
}
