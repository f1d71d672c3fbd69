package store

import "time"

// State says where a claim stands.
type State uint8

// The states of a claim.
const (
	Gone    State = iota // out of the line, for ever
	Waiting              // in the line, not held
	Held                 // in the held prefix of the line
)

// String is the state's word in errors and listings.
func (s State) String() string {
	switch s {
	case Gone:
		return "gone"
	case Waiting:
		return "waiting"
	case Held:
		return "held"
	}
	return "unknown state"
}

// A Status is a store's answer about one claim.
type Status struct {
	State  State
	Ticket uint64

	// Until is the local instant up to which the claim stands if it is not kept again (rule 5). It has a
	// monotonic and a wall reading, and the claim is over when either clock passes it. In a push it means
	// nothing.
	Until time.Time

	// Ahead is how many claims stand before it, or -1 if the store does not know.
	Ahead int

	// RecheckAt is the local instant at which a waiting claim should be kept again because something ahead of
	// it can run out then (rule 4). Zero: the store pushes that too.
	RecheckAt time.Time

	// Holder is the first holder, if the claim was not held at once and the store knows it for nothing.
	Holder *Entry

	// Err says in an answer of Keep why this claim's standing is not known. The rest then means nothing.
	Err error
}

// A Place is a claim in a line, as the store sees it.
type Entry struct {
	Claim
	State State
	Since time.Time     // when it was granted, or for a waiting claim when it joined; on this machine's clock; zero: not known
	Left  time.Duration // how long it still has if it is not kept again
}

// A Line is all places of one resource, in order of arrival. The held ones come first.
type Queue struct {
	Name    string
	Entries []Entry
}
