package report

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
)

// A Run is one run of the lab: what was tried, what each worker did, which faults there were, and what the checks
// found. It is plain data: the code that carries out a run fills it in. All instants are on the clock of the history.
type Run struct {
	Title   string `json:"title"`
	Store   string `json:"store"`       // the store's address, with its secrets masked
	Command string `json:"command"`     // repeats the run
	Seed    uint64 `json:"seed,string"` // of the schedule

	Started          time.Time `json:"started"` // the wall clock at Begin
	history.Interval           // of the whole run; what lies outside is not shown

	Operations int       `json:"operations"` // how many locks the workers requested, and similar operations
	Workers    []*Worker `json:"workers"`    // in the order in which they are shown
	Faults     []Fault   `json:"faults"`
	Checks     []Check   `json:"checks"`
	Figures    []Figure  `json:"figures,omitempty"`
}

// A Worker is one actor of a run: a goroutine or an owner in a client of a process. It has a row in the timeline.
type Worker struct {
	history.Who
	Spans []Span `json:"spans"` // in any order; they may overlap, as those of an owner with two locks do
}

// A State is what a worker did, or what was done to it.
type State string

// The states. Those marked as moments have equal Begin and End.
const (
	Waiting State = "waiting" // requested a lock and has not acquired it
	Holding State = "holding" // believes that it holds a lock
	Lost    State = "lost"    // found that the lock is lost: the moment, or until it has stopped its work
	Wrote   State = "wrote"   // a write to what the lock protects was accepted; a moment
	Refused State = "refused" // a write to what the lock protects was refused by its fence; a moment
	Paused  State = "paused"  // its process was stopped
	Killed  State = "killed"  // its process was killed: the moment, or until a new one replaced it
)

// A Span is a part of a worker's row in the timeline.
type Span struct {
	State State `json:"state"`
	history.Interval
	Open     bool           `json:"open,omitempty"`     // lasted at least until End; the real end is unknown
	Resource string         `json:"resource,omitempty"` // empty if the state is that of the worker as a whole
	Kind     history.Kind   `json:"kind,omitempty"`
	Units    int            `json:"units,omitempty"` // of a semaphore
	Limit    int            `json:"limit,omitempty"` // of a semaphore
	Token    holdfast.Token `json:"token,omitzero"`  // 0: there is none, or none yet
	Note     string         `json:"note,omitempty"`  // a remark, such as why a wait ended without the lock
}

// A Fault is something that was broken on purpose for a while. It is a band across the timeline.
type Fault struct {
	Name             string `json:"name"`   // such as "connection cut"
	Target           string `json:"target"` // what it affected, such as "process 2"
	history.Interval        // Begin is End if it was done in a moment
	Proof            string `json:"proof,omitempty"` // how it is known to have happened; empty: unknown
}

// A Check is what one checker judged and found.
type Check struct {
	Name     string    `json:"name"`           // in a few words, such as "mutual exclusion"
	Property string    `json:"property"`       // the exact property, in one sentence
	Judged   int       `json:"judged"`         // how many events it has judged; if none, it proves nothing
	Findings []Finding `json:"findings"`       // the violations of the property
	More     bool      `json:"more,omitempty"` // it stopped after these findings: there may be more

	// Calibration marks a check of something that is known to be broken, which shows that the checker detects it. Its
	// findings are not violations, and the verdict leaves it out.
	Calibration bool `json:"calibration,omitempty"`
}

// A Finding is one violation of a property.
type Finding struct {
	Rule             string         `json:"rule"` // which part of the property it breaks, in a word or two
	Resource         string         `json:"resource,omitempty"`
	history.Interval                // of an overlap, what its holds have in common; the whole run if it has no time
	Holds            []history.Hold `json:"holds,omitempty"`   // those that break it together, with their tokens
	Workers          []history.Who  `json:"workers,omitempty"` // the participants, if there are no Holds
	Text             string         `json:"text"`              // what happened, in one sentence, without the holds
}

// A Figure is an additional number of a run.
type Figure struct {
	Name  string  `json:"name"` // such as "updates lost without a fence"
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"` // such as "ms"
}
