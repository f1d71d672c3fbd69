package store

import "time"

// A State is the state of a claim.
type State uint8

// The states of a claim.
const (
	Gone    State = iota // no longer in the queue, for ever
	Waiting              // in the queue, not held
	Held                 // in the held prefix of the queue
)

var states = [...]string{Gone: "gone", Waiting: "waiting", Held: "held"}

// String returns the name of the state in errors and listings.
func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return "unknown state"
}

// A Status is what a store reports about one claim.
type Status struct {
	State  State
	Ticket uint64

	// Until is the local instant at which the claim expires if it is not kept again (rule 5). It has a monotonic and a
	// wall clock reading, and the claim is over when either clock passes it. In a push it has no meaning.
	Until time.Time

	// Ahead is the number of claims before this one in the queue, or -1 if the store does not know it.
	Ahead int

	// RecheckAt is the local instant at which a waiting claim should be kept again, because a claim ahead of it can
	// expire then (rule 4). It is zero if the store pushes such grants too.
	RecheckAt time.Time

	// Holder is the first holder, if the claim was not held at once and the store knows the holder without a further
	// request.
	Holder *Entry

	// Err is set by Keep if the status of this claim is not known. The other fields then have no meaning.
	Err error
}

// An Entry is a claim in a queue, as the store sees it.
type Entry struct {
	Claim
	State State

	// Since is when the claim was granted or, if it waits, when it joined, on this machine's clock. It is zero if that
	// is not known.
	Since time.Time

	// Left is the time after which the claim expires if it is not kept again.
	Left time.Duration
}

// A Queue is all claims on one resource, in order of arrival. The held ones come first.
type Queue struct {
	Name    string
	Entries []Entry
}
