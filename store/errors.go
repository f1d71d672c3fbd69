package store

import (
	"errors"
	"fmt"
	"strings"
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
	Err   error
}

// Error names the store and what went wrong, in one line.
func (f *Fault) Error() string { return f.Store + ": " + strings.ReplaceAll(f.Err.Error(), "\n", "; ") }

// Unwrap gives what went wrong.
func (f *Fault) Unwrap() error { return f.Err }

// A MismatchError is ErrMismatch, and says how the name is in use.
type MismatchError struct {
	InUse Ask // the kind and the limit of the head of the line; Units means nothing
}

// Error names the kind that is in use, and of a semaphore the limit.
func (e *MismatchError) Error() string {
	if e.InUse.Kind == Semaphore {
		return fmt.Sprintf("the name is in use as a semaphore of %d", e.InUse.Limit)
	}
	return "the name is in use as a " + e.InUse.Kind.String()
}

// Unwrap makes it ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }

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

var finals = []error{ErrBadName, ErrMismatch, ErrNotHeld, ErrClosed, ErrUnsupported, ErrFloor, ErrFormat}
