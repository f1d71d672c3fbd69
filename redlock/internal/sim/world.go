package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// A Kind is what a schedule can show to be wrong.
type Kind string

// The kinds of faults.
const (
	Overlap Kind = "overlap" // two held at one time
	Order   Kind = "order"   // a ticket was not above all earlier ones
	Wait    Kind = "wait"    // a client did not get in
	Residue Kind = "residue" // a key stayed, or a claim was never finished
	Broken  Kind = "broken"  // a lock that was taken away was kept
)

// A Finding is one thing that went wrong.
type Finding struct {
	Kind Kind
	At   time.Duration
	Text string
}

// String writes the finding for people.
func (f Finding) String() string { return fmt.Sprintf("%v: %s: %s", f.At, f.Kind, f.Text) }

// A Report is what came of a schedule.
type Report struct {
	Findings []Finding
	Seen     [counters]int // how often things happened: a schedule in which nothing happens proves nothing
	Steps    int
	Lasted   time.Duration // in its own time
}

// Run plays the schedule of a seed, without some of the rules. If trace is not nil, what happens is written to it.
func Run(seed uint64, off vote.Without, trace io.Writer) Report {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 8)), //nolint:gosec // a seed is the point
		off:    off, trace: trace, highest: map[string]uint64{},
	}
	w.plan()
	w.run()
	w.report.Lasted = w.now
	return w.report
}

// A world is all there is in one schedule.
type world struct {
	random *rand.Rand
	off    vote.Without
	trace  io.Writer
	report Report

	now     time.Duration // the true time, which nobody in it knows
	events  queue
	nodes   []*server
	clients []*client
	rules   vote.Rules
	weather weather
	calm    time.Duration // when faults stop
	end     time.Duration // when all must have got in
	theme   theme
	wild    bool // a majority may be without its data at once: tickets are not checked
	// There is a client of another deployment: it may spoil a node, and then waits are not checked.
	odd     bool
	highest map[string]uint64 // the ticket of the last grant of each lock
	jumpy   bool              // clocks may jump ahead: who gets in is all that is checked
	blind   bool              // clients propose no tickets along with takes
	wanting int               // clients that are not done
}

// run plays one event after the other.
func (w *world) run() {
	for w.events.Len() > 0 && len(w.report.Findings) == 0 {
		var e event
		w.now, e = w.events.pop()
		w.report.Steps++
		if w.wanting > 0 && w.now > w.end {
			if !w.odd {
				w.complain(Wait, "%d clients have not got in, %v after faults stopped", w.wanting, w.now-w.calm)
			}
			return
		}
		if e.client != nil && !e.atNode && e.client.hinder(w, &e) {
			continue
		}
		e.do(w, &e)
	}
	if len(w.report.Findings) == 0 {
		w.empty()
	}
}

// empty checks that no claim is left to be released, and that after a while no node has anything but its record.
func (w *world) empty() {
	for _, c := range w.clients {
		for a := range c.others {
			if c.alive {
				w.complain(Residue, "%s is over, and never finished", a.label)
			}
		}
	}
	w.now += 2 * oddTTL
	for i, s := range w.nodes {
		if n := s.node.Residue(s.clock(w.now)); n != 0 {
			w.complain(Residue, "node %d still has %d things", i, n)
		}
	}
}

func (w *world) complain(kind Kind, format string, args ...any) {
	f := Finding{kind, w.now, fmt.Sprintf(format, args...)}
	w.report.Findings = append(w.report.Findings, f)
	w.note("FOUND %v", f)
}

func (w *world) note(format string, args ...any) {
	if w.trace != nil {
		fmt.Fprintf(w.trace, "%12v  %s\n", w.now, fmt.Sprintf(format, args...)) //nolint:errcheck // for people
	}
}

// saw counts and notes what happens.
func (w *world) saw(counter int, format string, args ...any) {
	w.report.Seen[counter]++
	w.note(format, args...)
}

// at plans an event.
func (w *world) at(t time.Duration, e event) {
	w.events.push(max(t, w.now), &e)
}

// chance is true in so many of a thousand cases.
func (w *world) chance(permille int) bool { return permille > 0 && w.random.IntN(1000) < permille }

// between gives a random duration.
func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)+1))
}

// A rate is by how much of a billion a clock is fast.
type rate int64

func (r rate) from(t time.Duration) time.Duration { return t + t*time.Duration(r)/1e9 }

// to is the first true time at which the clock shows at least t.
func (r rate) to(t time.Duration) time.Duration {
	guess := t - time.Duration(float64(t)*float64(r)/float64(1e9+r)) - 2
	for r.from(guess) < t {
		guess++
	}
	return guess
}

func name(i int) string { return string(rune('A' + i)) }
