package demo

import "time"

// An order is the first line that the coordinator sends to a worker. It goes through the pipe and not through the
// arguments, where everyone on the machine could read the store's password. Every line after it is empty, and says
// to go on.
type order struct {
	Worker int
	Stock  string // the file with the stock
	Lock   lockKind
	Fence  bool          // the stock refuses stale tokens
	Store  string        // URL of Holdfast's store
	Name   string        // of the lock
	TTL    time.Duration // of the lease
}

// A lockKind is what a worker takes before it sells.
type lockKind string

const (
	noLock       lockKind = "none"
	naiveLock    lockKind = "naive"
	holdfastLock lockKind = "holdfast"
)

// A report is a line that a worker sends to the coordinator.
type report struct {
	Kind reportKind
	Item int  // the number of the item: how many were left when the worker read the stock
	Hold span // while paying, it ends when the worker's belief would end by itself; afterwards, when it did
}

// A reportKind says what a worker does, or what became of its sale.
type reportKind string

const (
	ready   reportKind = "ready"   // waits for the word to begin
	waiting reportKind = "waiting" // for the lock
	paying  reportKind = "paying"  // has read, will write; waits for the word to go on
	sold    reportKind = "sold"    // has written
	refused reportKind = "refused" // the fence refused the write
	late    reportKind = "late"    // the fence refused to let it read
	soldOut reportKind = "sold out"
)
