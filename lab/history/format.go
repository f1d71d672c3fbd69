package history

import "github.com/holdfast-go/holdfast"

// version is the version of the format. A file of an earlier version has only holds, without until. Suffix is how the
// names of history files end.
const (
	version    = 2
	oldVersion = 1
	suffix     = ".history.jsonl"
)

// A header is the first line of a file.
type header struct {
	History int    `json:"history"` // the version of the format
	Process string `json:"process"`
	Clock   string `json:"clock"`
	Boot    string `json:"boot"`
}

// The events of a hold.
const (
	began = "begin" // the holder believes
	still = "still" // it still does
	ended = "end"   // it believed until then
)

// The events of a wait.
const (
	asked   = "wait"    // a lock is requested
	granted = "grant"   // the wait is over, and the lock is held
	gaveUp  = "give up" // the wait is over, and nothing is held
)

// The events of an operation on a register.
const (
	called  = "call"   // it begins
	sent    = "sent"   // an update has read, and is about to write
	done    = "done"   // it was acknowledged
	refused = "refuse" // it was refused and changed nothing
)

// arrived is the event of a claim that the store acknowledged.
const arrived = "arrive"

// An event is any other line. The fields after the first three belong to the event that begins something, unless noted
// otherwise.
type event struct {
	Event string  `json:"event"`
	ID    uint64  `json:"id"` // identifies a hold, wait or operation in its file
	At    Instant `json:"at"`

	Client   string         `json:"client,omitempty"`
	Owner    string         `json:"owner,omitempty"`
	Resource string         `json:"resource,omitempty"` // or the register
	Kind     Kind           `json:"kind,omitempty"`
	Units    int            `json:"units,omitempty"`
	Limit    int            `json:"limit,omitempty"`
	Token    holdfast.Token `json:"token,omitzero"` // in decimal, as text; of a wait, that of its grant

	Until  Instant `json:"until,omitempty"`  // begin, still: the holder believes until then without further news
	Lost   bool    `json:"lost,omitempty"`   // end: the holder found that it had lost the lock
	Seen   Instant `json:"seen,omitempty"`   // end, with lost: when it found that
	Ticket uint64  `json:"ticket,omitempty"` // arrive
	Acked  Instant `json:"acked,omitempty"`  // arrive: when it was acknowledged; at is when it was sent
	Update bool    `json:"update,omitempty"` // call: it reads and then writes
	Old    string  `json:"old,omitempty"`    // sent, and done of a read: what was read
	New    string  `json:"new,omitempty"`    // sent: what is written
}
