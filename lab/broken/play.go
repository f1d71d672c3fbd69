package broken

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// A Lab plays rungs, on servers that it starts when the first rung needs them. It is safe for concurrent use.
type Lab struct {
	// Command starts a player in a separate process: a program that calls Perform.
	Command func(context.Context) *exec.Cmd

	// Leniency multiplies the time that a client may wait for its lock, in rungs about waiting. It is for busy
	// machines; 0 means 1.
	Leniency int

	plays  atomic.Uint64 // so that each play has a lock of its own
	mu     sync.Mutex
	shared map[string]any // servers that many rungs use, by name
	stops  []func() error
	alone  sync.Mutex // for plays that count what a server does
}

// Close stops the servers.
func (l *Lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, stop := range l.stops {
		errs = append(errs, stop())
	}
	l.stops, l.shared = nil, nil
	return errors.Join(errs...)
}

// share starts servers that many plays use, or returns those that already run.
func share[S any](s *stage, name string, start func(testing.TB) S) (shared S) {
	l := s.lab
	l.mu.Lock()
	defer l.mu.Unlock()
	if running, ok := l.shared[name]; ok {
		return running.(S)
	}
	stop, err := servers.Outside(s.ctx, func(t testing.TB) { shared = start(t) })
	s.must(err)
	if l.shared == nil {
		l.shared = map[string]any{}
	}
	l.shared[name] = shared
	l.stops = append(l.stops, stop)
	return shared
}

// An Outcome is the result of a rung.
type Outcome struct {
	Rung     *Rung
	Seed     uint64
	Broken   *Performance // with the broken lock
	Holdfast *Performance // with Holdfast's
}

// Caught reports whether the check found that the broken lock violates the rule of its rung.
func (o *Outcome) Caught() bool {
	return slices.ContainsFunc(o.Broken.Findings(), func(f check.Finding) bool { return f.Rule == o.Rung.Rule })
}

// Passed reports whether each check of Holdfast's lock judged events, and none found a violation.
func (o *Outcome) Passed() bool {
	return len(o.Holdfast.Checks) > 0 && len(o.Holdfast.Findings()) == 0 &&
		!slices.ContainsFunc(o.Holdfast.Checks, func(c Check) bool { return c.Judged == 0 })
}

// A Performance is what happened in one play of a schedule.
type Performance struct {
	Started          time.Time // the wall clock at the beginning
	history.Interval           // on the clock of the history
	*history.History           // what was believed, waited for and written
	Events           []Event
	Wakeups          []check.Wakeup
	Faults           []Fault
	Checks           []Check
}

// A Check is what one check judged and found.
type Check struct {
	Name     string
	Property string // in one sentence
	Judged   int    // how many events it judged
	Findings []check.Finding
}

// Findings returns the findings of all checks.
func (p *Performance) Findings() (all []check.Finding) {
	for _, c := range p.Checks {
		all = append(all, c.Findings...)
	}
	return all
}

// An Event is a step of a schedule.
type Event struct {
	At   history.Instant
	Who  string // the player; empty: what the schedule does
	Text string
}

// A Fault is something that the schedule broke for a time.
type Fault struct {
	Name, Target string
	history.Interval
}

// A MissingError is returned if a server that a rung needs is not installed.
type MissingError struct {
	Rung    string
	Program string
	Advice  string // how to install it
}

// Error returns what is missing and how to install it.
func (e *MissingError) Error() string {
	return fmt.Sprintf("holdfast: lab: %s needs %s, which is not installed. To get it: %s", e.Rung, e.Program, e.Advice)
}

// Play plays a rung, with the broken lock first and then with Holdfast's.
func (l *Lab) Play(ctx context.Context, r *Rung, seed uint64) (*Outcome, error) {
	for _, program := range r.Needs {
		if advice, missing := servers.Missing(program); missing {
			return nil, &MissingError{r.Name, program, advice}
		}
	}
	o := &Outcome{Rung: r, Seed: seed}
	failed := func(lock string, err error) error {
		return fmt.Errorf("holdfast: lab: %s, seed %d, with %s: %w", r.Name, seed, lock, err)
	}
	var err error
	if o.Broken, err = l.play(ctx, r, seed, false); err != nil {
		return nil, failed("the broken lock", err)
	}
	if o.Holdfast, err = l.play(ctx, r, seed, true); err != nil {
		return nil, failed("Holdfast", err)
	}
	return o, nil
}

// playPatience bounds one play, so that a schedule that is stuck fails.
const playPatience = time.Minute

func (l *Lab) play(ctx context.Context, r *Rung, seed uint64, holdfast bool) (*Performance, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, playPatience,
		fmt.Errorf("the schedule was not through after %v", playPatience))
	defer cancel()
	s := &stage{
		ctx: ctx, lab: l, rung: r, holdfast: holdfast,
		random: rand.New(rand.NewPCG(seed, uint64(r.Number))), //nolint:gosec // a seed is the point
		lock:   fmt.Sprintf("lab-%s-%d", r.Name, l.plays.Add(1)),
	}
	return s.run()
}
