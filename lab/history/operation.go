package history

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// An Outcome is what is known about the end of an operation.
type Outcome string

// The outcomes.
const (
	Unknown      Outcome = ""             // it may have happened, and may still happen
	Acknowledged Outcome = "acknowledged" // it has happened
	Refused      Outcome = "refused"      // it changed nothing, and never will
)

// An Operation is a read or an update of a register under a lock. An update reads a value and then writes another one.
// An operation lasts from before its first request until after its last response. Every update writes a unique value,
// and a register begins with the empty value.
type Operation struct {
	Who
	Register string
	Token    holdfast.Token
	Update   bool
	Old      string // what it has read
	New      string // what an update writes; empty: it did not get that far
	Outcome  Outcome
	Interval
}

// String describes the operation, without its times.
func (o Operation) String() string {
	s := fmt.Sprintf("read of %q", o.Old)
	if o.Update {
		s = fmt.Sprintf("update of %q to %q", o.Old, o.New)
	}
	s += fmt.Sprintf(" by %s", o.Who)
	if o.Token != 0 {
		s += fmt.Sprintf(" with token %v", o.Token)
	}
	return s
}

// Call records that an operation begins now. Call fills in the process, the times, the values and the outcome of o.
func (r *Recorder) Call(o Operation) *Calling {
	c := &Calling{recorder: r, id: r.ids.Add(1)}
	r.write(event{
		Event: called, ID: c.id, At: Now(), Client: o.Client, Owner: o.Owner,
		Resource: o.Register, Token: o.Token, Update: o.Update,
	})
	return c
}

// A Calling is an operation that is being recorded, by one goroutine.
type Calling struct {
	recorder *Recorder
	id       uint64
}

// Sends records that an update read old and is about to write new.
func (c *Calling) Sends(old, value string) {
	c.recorder.write(event{Event: sent, ID: c.id, At: Now(), Old: old, New: value})
}

// Read records the end of a read, and what it read.
func (c *Calling) Read(value string) {
	c.recorder.write(event{Event: done, ID: c.id, At: Now(), Old: value})
}

// Wrote records that an update was acknowledged.
func (c *Calling) Wrote() { c.recorder.write(event{Event: done, ID: c.id, At: Now()}) }

// Refused records that the operation was refused. If the end of an operation is unknown, none is recorded.
func (c *Calling) Refused() { c.recorder.write(event{Event: refused, ID: c.id, At: Now()}) }
