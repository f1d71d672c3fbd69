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

// LastMark is the first microsecond of the year 2100. A highest ticket beyond it was set by hand.
const LastMark = 4_102_444_800_000_000

// MarkTooHigh says whether a store's highest ticket must not be counted on from at the server's time now: it is beyond
// LastMark, and as far ahead of the clock as a floor may not be. One that is only ahead of the clock is believed: it
// may be the clock that was set back.
func MarkTooHigh(mark uint64, now time.Time) bool { return mark > LastMark && FloorTooHigh(mark, now) }

// BadMark is the error of such a mark, which is kept there. It wraps ErrFloor.
func BadMark(where, mark string) error {
	return fmt.Errorf("%w: %s says that the highest ticket is %.32s, which is beyond the year 2100 and was set by hand; "+
		"docs/operations.md says how to mend it", ErrFloor, where, mark)
}

// A Fault is a failure of the store itself: unreachable, refused, wrong password, read-only. It is never read
// as contention.
type Fault struct {
	Store string // name and masked address
	Final bool   // trying again is of no use until somebody mends it
	Busy  bool   // it is connected, and was only too slow: a caller that waits tries again for as long as it may
	Err   error
}

// Error names the store and what went wrong, in one line.
func (f *Fault) Error() string { return f.Store + ": " + strings.ReplaceAll(f.Err.Error(), "\n", "; ") }

// Unwrap gives what went wrong.
func (f *Fault) Unwrap() error { return f.Err }

// A MismatchError is ErrMismatch, and says how the name is in use.
type MismatchError struct {
	InUse Demand // the kind and the limit of the head of the line; Units means nothing
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

// Busy says whether err is of a store that is there, and was only too slow.
func Busy(err error) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && f.Busy && !f.Final
}

var finals = []error{ErrBadName, ErrMismatch, ErrNotHeld, ErrClosed, ErrUnsupported, ErrFloor, ErrFormat}
