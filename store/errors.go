package store

import (
	"errors"
	"time"
)

// What a store answers that is no standing. Package holdfast has the same values under the same names.
var (
	ErrBadName     = errors.New("holdfast: bad name")
	ErrMismatch    = errors.New("holdfast: the name is in use with another kind or limit")
	ErrNotHeld     = errors.New("holdfast: not held")
	ErrClosed      = errors.New("holdfast: closed")
	ErrUnsupported = errors.New("holdfast: not supported by this store")
	ErrFloor       = errors.New("holdfast: the store cannot give a greater ticket than this client has seen")
	ErrFormat      = errors.New("holdfast: written by a newer version of holdfast")
)

// FloorAhead is how far ahead of the server's clock, in microseconds since 1970, a floor may be (rule 3).
const FloorAhead = 24 * time.Hour

// FloorTooHigh says whether a floor must be refused at the server's time now.
func FloorTooHigh(floor uint64, now time.Time) bool {
	return floor >= MaxTicket || floor > uint64(now.Add(FloorAhead).UnixMicro())
}

// A Fault is a failure of the store itself: unreachable, refused, wrong password, read-only. It is never read
// as contention.
type Fault struct {
	Store string // name and masked address
	Final bool   // trying again is of no use until somebody mends it
	Busy  bool   // it is connected, and was only too slow: a caller that waits tries again for as long as it may
	Err   error
}

// Error names the store and what went wrong.
func (f *Fault) Error() string { return f.Store + ": " + f.Err.Error() }

// Unwrap gives what went wrong.
func (f *Fault) Unwrap() error { return f.Err }

// Final says whether err will come again however often the call is repeated.
func Final(err error) bool {
	if f, ok := errors.AsType[*Fault](err); ok && f.Final {
		return true
	}
	for _, final := range finals {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// Busy says whether err is of a store that is there, and was only too slow.
func Busy(err error) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && f.Busy && !f.Final
}

var finals = []error{ErrBadName, ErrMismatch, ErrNotHeld, ErrClosed, ErrUnsupported, ErrFloor, ErrFormat}
