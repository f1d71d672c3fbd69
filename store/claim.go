package store

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// MaxReaders is the limit of a lock. A reader asks for 1 of it, a writer or a mutex for all.
const MaxReaders = 1 << 20

// MaxTicket is the greatest ticket. With eight bits of mark and turn below it, a token stays positive as a
// signed 64-bit number, which is what SQL has. As microseconds of a clock it lasts beyond the year 3000.
const MaxTicket = 1<<55 - 1

// ID names one claim. The client makes it and never uses it again. All of it is random, and nobody can guess it:
// whoever knows the ID of a claim that waits can forge its grant where pushes can be forged (rule 7).
type ID [16]byte

// Everyone is the ID in a push that says: pushes may have been lost, keep everything once.
var Everyone ID

// String writes the ID in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText writes the ID in hexadecimal.
func (id ID) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, id[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *ID) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(id)) {
		return hex.ErrLength
	}
	_, err := hex.Decode(id[:], text)
	return err
}

// Kind tells two uses of a line apart that must never share one.
type Kind uint8

// The kinds of lines.
const (
	Lock      Kind = iota + 1 // a mutex, a read-write lock, an election
	Semaphore                 // a counting semaphore
)

// String is the kind's word in errors and listings.
func (k Kind) String() string {
	switch k {
	case Lock:
		return "lock"
	case Semaphore:
		return "semaphore"
	}
	return "unknown kind"
}

// An Ask is what a claim wants: units of a limit, of one kind of line. It is all that decides who holds.
type Demand struct {
	Kind  Kind
	Units int32 // from 1 to Limit
	Limit int32 // from 1 to MaxReaders; for a Lock it is MaxReaders
}

// Exclusive says whether a holder of this ask is alone by the meaning of its kind, so that its token raises a
// fence. A semaphore's claim never is, even if it took every unit.
func (a Demand) Exclusive() bool { return a.Kind == Lock && a.Units == a.Limit }

// A Claim is a place in a resource's line, as its client describes it. The client keeps to what the store's
// Abilities allow; a store need not check it.
type Claim struct {
	ID   ID
	Name string
	Demand

	TTL   time.Duration // how long it lives without being kept
	Grace time.Duration // how much longer than its owner believes the store keeps its place
	Try   bool          // join only if held at once

	Floor  uint64 // in Join: the highest ticket this client has seen in this store
	Ticket uint64 // as Join's acknowledgement gave it, or without a line the grant; 0 before that, also in Leave

	// What may change while the claim stands. Keep carries it.
	Turn  uint8  // how often it was handed over inside its process
	Owner *Owner // never nil, never changed once it was handed over
	Waits []Wait // what the owner waits for, if it also waits elsewhere
}

// An Owner says who made a claim, for people and for finding deadlocks.
type Owner struct {
	ID      string    `json:"id,omitempty"` // tells owners apart; empty: the claim's own ID does
	Label   string    `json:"label,omitempty"`
	Host    string    `json:"host,omitempty"`
	Address string    `json:"address,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Started time.Time `json:"started,omitzero"` // the client's start, by its own clock: for people only
}

// A Wait is an edge for finding deadlocks: this owner waits with that claim in that line. It counts only while
// that claim really is waiting there.
type Wait struct {
	Name string `json:"name"`
	ID   ID     `json:"id"`
}

// String writes the owner for people, as in "nightly on web-1 (pid 4711)", in one line that does nothing to a terminal.
func (o Owner) String() string {
	s := Shown(o.Host)
	if s == "" {
		s = Shown(o.Address)
	}
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
		return "somebody"
	}
	return s
}
