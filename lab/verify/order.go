package verify

import (
	"time"

	"github.com/holdfast-go/holdfast/lab/contend"
)

// An order is the first line that a worker reads. It comes through a pipe and not as an argument, where everyone on the
// machine could read the store's password. Every line after it is the number of a round that begins. The end of the input
// says to stop.
type order struct {
	Process    string        // its name
	Store      string        // URL of the store
	Hosts      []string      // in place of those of the URL; empty: those of the URL
	TTL        time.Duration // of claims
	Prefix     string        // of all names
	Dir        string        // for its history
	Guard      string        // the socket of the guard
	Seed       uint64
	Goroutines int

	Burn time.Duration // do nothing but use a processor for so long; 0: be a worker
}

// A message is a line that a worker writes.
type message struct {
	Ready   bool            `json:",omitempty"`
	Through int64           `json:",omitempty"` // in this round or later, each goroutine has got a lock that it asked for
	Report  *contend.Report `json:",omitempty"` // in the last message
}
