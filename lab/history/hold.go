package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// An Instant is a point in time, in nanoseconds of this machine's clock.
type Instant int64

// Sub returns the time from u to i.
func (i Instant) Sub(u Instant) time.Duration { return time.Duration(i - u) }

// An Interval is the time between two instants.
type Interval struct {
	Begin Instant `json:"begin"`
	End   Instant `json:"end"`
}

// Overlap returns how long both intervals last at once, and whether they overlap at all. The time may be zero: an empty
// interval inside another one overlaps it. Intervals that only touch do not overlap.
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
	Exclusive Kind = "exclusive" // nothing
	Shared    Kind = "shared"    // other shared holds
	Semaphore Kind = "semaphore" // other holds of the same semaphore, up to its limit
)

// Who identifies a holder. Two holds with equal Who and the same token are leases of one claim.
type Who struct {
	Process string `json:"process,omitempty"`
	Client  string `json:"client,omitempty"`
	Owner   string `json:"owner,omitempty"`
}

// String returns the parts that are not empty, separated by slashes.
func (w Who) String() string {
	parts := slices.DeleteFunc([]string{w.Process, w.Client, w.Owner}, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return "somebody"
	}
	return strings.Join(parts, "/")
}

// A Hold is a time for which a holder believed that it held a resource.
type Hold struct {
	Who
	Resource string         `json:"resource"`
	Kind     Kind           `json:"kind"`
	Units    int            `json:"units,omitempty"` // of a semaphore
	Limit    int            `json:"limit,omitempty"` // of a semaphore
	Token    holdfast.Token `json:"token,omitzero"`  // 0: the lock has none
	Interval
	Open bool `json:"open,omitempty"` // the belief lasted at least until End; its real end is unknown

	// Until is when the belief would have ended without further news; 0: unknown.
	Until Instant `json:"until,omitzero"`
	// Lost is when the holder found that it had lost the lock; 0: it released the lock, or its end is unknown.
	Lost Instant `json:"lost,omitzero"`
}

// String describes the hold, without its times.
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

// check returns what is wrong with the fields of a hold, or nil.
func (h Hold) check() error {
	switch {
	case h.Kind != Exclusive && h.Kind != Shared && h.Kind != Semaphore:
		return fmt.Errorf("a hold of unknown kind: %q", h.Kind)
	case h.Kind == Semaphore && (h.Units < 1 || h.Limit < 1):
		return fmt.Errorf("a hold of %d of %d units", h.Units, h.Limit)
	}
	return h.Interval.check("a hold")
}

// Sort sorts holds by their beginning.
func Sort(holds []Hold) {
	slices.SortStableFunc(holds, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End), cmp.Compare(a.Token, b.Token))
	})
}
