package store

import (
	"cmp"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// MaxReaders is the limit of a lock. A reader demands 1 unit of it, a writer or a mutex all of them.
const MaxReaders = 1 << 20

// MaxTicket is the greatest ticket. With the eight bits of a token below it (shared and turn), a token stays positive
// as a signed 64-bit number, the integer type of SQL. As microseconds of a clock it lasts beyond the year 3000.
const MaxTicket = 1<<55 - 1

// An ID identifies one claim. The client makes it and never uses it again. All of it is random, so that it cannot be
// guessed: a client that knows the ID of a waiting claim can forge its grant where pushes can be forged (rule 7).
type ID [16]byte

// Everyone is the ID in a push that means: pushes may have been lost, keep all claims once.
var Everyone ID

// String returns the ID in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText returns the ID in hexadecimal.
func (id ID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText parses an ID as MarshalText writes it. It returns an error if text is not one.
func (id *ID) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(id)) {
		return hex.ErrLength
	}
	_, err := hex.Decode(id[:], text)
	return err
}

// A Kind is one of two uses of a queue that must never share one.
type Kind uint8

// The kinds of queues.
const (
	Lock      Kind = iota + 1 // a mutex, a read-write lock, an election
	Semaphore                 // a counting semaphore
)

// String returns the name of the kind in errors and listings.
func (k Kind) String() string {
	switch k {
	case Lock:
		return "lock"
	case Semaphore:
		return "semaphore"
	}
	return "unknown kind"
}

// A Demand is what a claim requests: units of a limit, of one kind of queue. It is all that decides which claims hold.
type Demand struct {
	Kind  Kind
	Units int32 // from 1 to Limit
	Limit int32 // from 1 to MaxReaders; for a Lock it is MaxReaders
}

// Exclusive reports whether a holder with this demand is the only one by the meaning of its kind, so that its token
// raises a fence. A semaphore's claim never is, even if it has every unit.
func (d Demand) Exclusive() bool { return d.Kind == Lock && d.Units == d.Limit }

// A Claim is a client's claim in a resource's queue, as the client describes it. The client respects the store's
// Abilities; a store need not check that.
type Claim struct {
	ID   ID
	Name string
	Demand

	TTL   time.Duration // how long it lives without being kept
	Grace time.Duration // how much longer than its holder believes the store keeps it
	Try   bool          // join only if held at once

	// AnyLimit is, in Join, whether a claim of a semaphore joins although its limit differs from that of the first
	// claim. It is for the time in which a limit changes.
	AnyLimit bool

	// Floor is, in Join, the highest ticket that this client has seen in this store.
	Floor uint64

	// Ticket is the ticket of Join's acknowledgement or, in a store without a queue, of the grant. It is 0 before that,
	// also in Leave.
	Ticket uint64

	// What may change while the claim lives. Keep carries it.
	Turn  uint8  // how often it was handed over inside its process
	Owner *Owner // never nil; the Owner that it points to never changes
	Waits []Wait // what the owner waits for, if it also waits in other queues
}

// An Owner describes the process and the job that made a claim, for people and for finding deadlocks.
type Owner struct {
	ID      string    `json:"id,omitempty"` // identifies the owner; empty: the claim's own ID does
	Label   string    `json:"label,omitempty"`
	Host    string    `json:"host,omitempty"`
	Address string    `json:"address,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Started time.Time `json:"started,omitzero"` // the client's start, by its own clock: for people only
}

// A Wait is an edge for finding deadlocks: the owner waits with that claim in that queue. It counts only while that
// claim really is waiting there.
type Wait struct {
	Name string `json:"name"`
	ID   ID     `json:"id"`
}

// String returns the owner for people, as in "nightly on web-1 (pid 4711)", in one line without control characters.
func (o Owner) String() string {
	s := Shown(cmp.Or(o.Host, o.Address))
	if o.Label != "" {
		s = strings.TrimSuffix(Shown(o.Label)+" on "+s, " on ")
	}
	if o.ID != "" {
		s = strings.TrimSuffix(Shown(o.ID)+", "+s, ", ")
	}
	if o.PID != 0 {
		s += " (pid " + strconv.Itoa(o.PID) + ")"
	}
	if s == "" {
		return "an unknown owner"
	}
	return s
}
