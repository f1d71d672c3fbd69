package contend

import "time"

// An order is the first line that a process reads. It comes through a pipe and not as an argument, where everyone on
// the machine could read the store's password. Every line after it is the number of a round that begins. The end of the
// input says to stop.
type order struct {
	Process    string        // its name
	URL        string        // of the store
	Dir        string        // for its history
	Goroutines int           // how many contend
	LongHold   time.Duration // for how long some hold at most
	Once       string        // what each takes once in a round; empty: see Plan
}

// A message is a line that a process writes.
type message struct {
	Through int64   // in this round or later, each goroutine has got a lock that it asked for; 0: it is ready
	Report  *Report `json:",omitempty"` // in the last message
}

// A Report is what became of a process's attempts.
type Report struct {
	Process  string
	Acquired int            // locks that were granted
	Lost     int            // of them, those that were lost before they were given back
	Faults   map[string]int // errors of the store after which it was tried again, and how often each came
	Wrong    map[string]int // other errors, which must not happen
}
