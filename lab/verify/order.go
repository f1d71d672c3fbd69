package verify

import "time"

// An order is the first line that a worker reads. It is sent through a pipe rather than as an argument, where every
// user of the machine could read the store's password. Every line after it is the number of a round that begins. The
// worker stops at the end of its input.
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

	Burn time.Duration // only use a processor for this long; 0: be a worker
}
