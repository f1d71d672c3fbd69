package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// An Instant is a moment, in nanoseconds of a clock that only this machine has.
type Instant int64

// Sub is the time from u to i.
func (i Instant) Sub(u Instant) time.Duration { return time.Duration(i - u) }

// An Interval is the time between two moments.
type Interval struct {
	Begin Instant `json:"begin"`
	End   Instant `json:"end"`
}

// Overlap is how long both intervals last at once. They may do so for no time at all: a single moment inside another
// interval. Intervals that only touch do not overlap.
func (v Interval) Overlap(w Interval) (d time.Duration, ok bool) {
	if v.Begin >= w.End || w.Begin >= v.End {
		return 0, false
	}
	return min(v.End, w.End).Sub(max(v.Begin, w.Begin)), true
}

// A Kind is what a holder shares a resource with.
type Kind string

// The kinds of holds.
const (
	Exclusive Kind = "exclusive" // nobody
	Shared    Kind = "shared"    // other shared holds
	Semaphore Kind = "semaphore" // other holds of the same semaphore, up to its limit
)

// Who says who held. Two holds by the same in all three parts and with the same token are leases of one claim.
type Who struct {
	Process string `json:"process,omitempty"`
	Client  string `json:"client,omitempty"`
	Owner   string `json:"owner,omitempty"`
}

// String writes who, with slashes between the parts that are there.
func (w Who) String() string {
	parts := slices.DeleteFunc([]string{w.Process, w.Client, w.Owner}, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return "somebody"
	}
	return strings.Join(parts, "/")
}

// A Hold says that somebody believed to hold something for a while.
type Hold struct {
	Who
	Resource string         `json:"resource"`
	Kind     Kind           `json:"kind"`
	Units    int            `json:"units,omitempty"` // of a semaphore
	Limit    int            `json:"limit,omitempty"` // of a semaphore
	Token    holdfast.Token `json:"token,omitzero"`  // 0: the lock gives none
	Interval
	Open bool `json:"open,omitempty"` // the belief lasted at least until End; its real end is not known

	// Until is up to when the holder would have believed if it had heard nothing more; 0: not known.
	Until Instant `json:"until,omitzero"`
	// Lost is when the holder found that it had lost the lock, without having given it back; 0: it has given it back, or
	// its end is not known.
	Lost Instant `json:"lost,omitzero"`
}

// String writes the hold for people, without its times.
func (h Hold) String() string {
	s := fmt.Sprintf("%s hold by %s", h.Kind, h.Who)
	if h.Kind == Semaphore {
		s += fmt.Sprintf(" of %d of %d units", h.Units, h.Limit)
	}
	if h.Token != 0 {
		s += fmt.Sprintf(" with token %v", h.Token)
	}
	return s
}

// check says what is wrong with a hold as such.
func (h Hold) check() error {
	switch {
	case h.Kind != Exclusive && h.Kind != Shared && h.Kind != Semaphore:
		return fmt.Errorf("a hold of no known kind: %q", h.Kind)
	case h.Kind == Semaphore && (h.Units < 1 || h.Limit < 1):
		return fmt.Errorf("a hold of %d of %d units", h.Units, h.Limit)
	}
	return h.Interval.check("a hold")
}

// Sort puts holds in order of their beginning.
func Sort(holds []Hold) {
	slices.SortStableFunc(holds, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End), cmp.Compare(a.Token, b.Token))
	})
}
