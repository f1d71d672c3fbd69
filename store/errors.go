package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The errors of a store that are not failures of it. Package holdfast has the same values under the same names.
var (
	ErrBadName     = errors.New("holdfast: bad name")
	ErrMismatch    = errors.New("holdfast: the name is in use with another kind or limit")
	ErrNotHeld     = errors.New("holdfast: not held")
	ErrClosed      = errors.New("holdfast: closed")
	ErrUnsupported = errors.New("holdfast: not supported by this store")
	ErrFloor       = errors.New("holdfast: the store cannot issue a greater ticket than this client has seen")
	ErrFormat      = errors.New("holdfast: written by a newer version of holdfast")
)

// FloorAhead is how far a floor, as microseconds since 1970, may be ahead of the server's clock (rule 3).
const FloorAhead = 24 * time.Hour

// FloorTooHigh reports whether a floor must be refused at the server's time now.
func FloorTooHigh(floor uint64, now time.Time) bool {
	return floor >= MaxTicket || floor > uint64(now.Add(FloorAhead).UnixMicro())
}

// LastMark is the first microsecond of the year 2100. A highest ticket beyond it was set by hand.
const LastMark = 4_102_444_800_000_000

// MarkTooHigh reports whether a store must not continue from its highest ticket at the server's time now: the ticket is
// beyond LastMark, and further ahead of the clock than a floor may be. One that is only ahead of the clock is accepted:
// the clock may have been set back.
func MarkTooHigh(mark uint64, now time.Time) bool { return mark > LastMark && FloorTooHigh(mark, now) }

// BadMark returns the error for a highest ticket that MarkTooHigh refuses. where says where the store keeps it. The
// error wraps ErrFloor.
func BadMark(where, mark string) error {
	return fmt.Errorf("%w: according to %s the highest ticket is %.32s, which is beyond the year 2100 and was set by "+
		"hand; docs/operations.md describes how to repair it", ErrFloor, where, mark)
}

// A Fault is a failure of the store itself: unreachable, refused, wrong password, read-only. It is never reported as
// contention.
type Fault struct {
	Store string // name and masked address
	Final bool   // a retry is of no use until an operator intervenes
	Busy  bool   // the store is connected and was only too slow: a caller that waits retries until its context ends
	Err   error
}

// Error returns the store and the reason, in one line.
func (f *Fault) Error() string { return f.Store + ": " + strings.ReplaceAll(f.Err.Error(), "\n", "; ") }

// Unwrap returns the reason.
func (f *Fault) Unwrap() error { return f.Err }

// A NoResponseError is the reason of a Fault if the server did not respond in time. The outcome of the call is unknown.
type NoResponseError struct {
	After time.Duration // how long the call waited
}

// Error returns the time that the call waited.
func (e *NoResponseError) Error() string { return fmt.Sprintf("no response in %v", e.After) }

// A MismatchError is an ErrMismatch that reports how the name is in use.
type MismatchError struct {
	InUse Demand // the kind and the limit of the first claim in the queue; Units has no meaning
}

// Error returns the kind that is in use and, for a semaphore, the limit.
func (e *MismatchError) Error() string {
	if e.InUse.Kind == Semaphore {
		return fmt.Sprintf("the name is in use as a semaphore of %d", e.InUse.Limit)
	}
	return "the name is in use as a " + e.InUse.Kind.String()
}

// Unwrap returns ErrMismatch.
func (e *MismatchError) Unwrap() error { return ErrMismatch }

// Final reports whether a repetition of the call would fail with the same error.
func Final(err error) bool {
	if f, ok := errors.AsType[*Fault](err); ok && f.Final {
		return true
	}
	return slices.ContainsFunc(finals, func(final error) bool { return errors.Is(err, final) })
}

// Busy reports whether err is that of a store which is connected and was only too slow.
func Busy(err error) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && f.Busy && !f.Final
}

var finals = []error{ErrBadName, ErrMismatch, ErrNotHeld, ErrClosed, ErrUnsupported, ErrFloor, ErrFormat}
