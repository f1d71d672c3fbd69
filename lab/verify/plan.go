package verify

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Prefix is the prefix of the names of all locks that verify takes.
const Prefix = "holdfast-verify/"

// Limits of a plan.
const (
	minWorkers, maxWorkers = 2, 32
	minTime, maxTime       = time.Second, 12 * time.Hour
)

// A Plan defines what is verified, for how long, and with how many workers.
type Plan struct {
	Store   string // URL of the store; empty with Servers
	Servers string // the kind of servers to start and to break; empty: those of Store are used, and not broken
	Time    time.Duration
	Seed    uint64
	Workers int
	Faults  []string // by name; empty: all that are possible and that the store's guarantees cover

	Command func() *exec.Cmd // a process that runs Work on its standard input and output
	Again   string           // the command line that repeats the run, for the report
	Tell    func(Event)      // receives the events of the run; may be nil
}

// An Event is something that happens in a run, for display.
type Event struct {
	At   time.Duration // since the faults began; 0 before that
	Text string
}

// Check returns what is wrong with a plan, or nil.
func (p *Plan) Check() error {
	switch {
	case p.Workers < minWorkers || p.Workers > maxWorkers:
		return fmt.Errorf("holdfast: verify needs %d to %d workers", minWorkers, maxWorkers)
	case p.Time < minTime || p.Time > maxTime:
		return fmt.Errorf("holdfast: verify takes from %v to %v", minTime, maxTime)
	case p.Servers != "" && p.Store != "":
		return errors.New("holdfast: verify either uses a store or starts servers of its own, not both")
	case p.Servers != "":
		_, err := siteKind(p.Servers)
		return err
	}
	at, err := store.ParseLocation(p.Store)
	if err != nil {
		return fmt.Errorf("holdfast: %w", err)
	}
	if at.Scheme == "memory" {
		return errors.New("holdfast: a memory: store is inside one process, and the workers of verify are several")
	}
	return nil
}

// choose returns the faults that a plan names, or all that the guarantees cover.
func (p *Plan) choose(can []fault) (chosen []fault, err error) {
	if len(p.Faults) == 0 {
		return slices.DeleteFunc(slices.Clone(can), func(f fault) bool { return f.beyond != "" }), nil
	}
	var names []string
	for _, f := range can {
		names = append(names, f.name)
	}
	for _, name := range p.Faults {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, &UsageError{
				fmt.Sprintf("there is no fault %q here; there are %s", name, strings.Join(names, ", ")),
			}
		}
		chosen = append(chosen, can[i])
	}
	return chosen, nil
}

// A UsageError is a mistake in a plan that was found only after the store was opened.
type UsageError struct{ text string }

// Error describes the mistake.
func (e *UsageError) Error() string { return "holdfast: verify: " + e.text }
