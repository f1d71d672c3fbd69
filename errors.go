package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// The errors of this package, for errors.Is. A failure of the store itself is none of these: it is a [*Fault], and
// never reported as contention.
var (
	// ErrLocked: another holder has the lock. It comes with a *LockedError.
	ErrLocked = errors.New("holdfast: locked")

	// ErrLost: the lease ended before it was unlocked.
	ErrLost = errors.New("holdfast: lease lost")

	// ErrNotHeld: the lease was unlocked already, or the lock is not held.
	ErrNotHeld = store.ErrNotHeld

	// ErrReentered: a lock was requested again under its own lease. See the option WithReentrance.
	ErrReentered = errors.New("holdfast: requested again under its own lease")

	// ErrUpgrade: a reader requested to write, or a holder of units more of them. It would wait for itself.
	ErrUpgrade = errors.New("holdfast: a shared lease cannot become a greater one")

	// ErrDowngrade: the lease is not a writer's, was re-entered, or was pinned.
	ErrDowngrade = errors.New("holdfast: this lease cannot be downgraded")

	// ErrDetach: the lease was re-entered or pinned.
	ErrDetach = errors.New("holdfast: this lease cannot be detached")

	// ErrBadDetached: a detached lease is damaged, or of another store.
	ErrBadDetached = errors.New("holdfast: bad detached lease")

	// ErrDeadlock: the wait could not end. It comes with a *DeadlockError.
	ErrDeadlock = errors.New("holdfast: deadlock")

	// ErrBadName: the name is empty, too long, not UTF-8, or has a NUL byte.
	ErrBadName = store.ErrBadName

	// ErrBadTTL: the ttl is not positive, or not possible in this store.
	ErrBadTTL = errors.New("holdfast: bad ttl")

	// ErrBadUnits: the number of units is not positive, or more than the limit.
	ErrBadUnits = errors.New("holdfast: bad units")

	// ErrBadOption: another option or argument has a value that is not possible.
	ErrBadOption = errors.New("holdfast: bad option")

	// ErrNilContext: the context of a call is nil.
	ErrNilContext = errors.New("holdfast: nil context")

	// ErrMismatch: the name is in use with another kind or limit. It comes with a *MismatchError.
	ErrMismatch = store.ErrMismatch

	// ErrClosed: the client was closed.
	ErrClosed = store.ErrClosed

	// ErrUnsupported: the store lacks an ability that the call needs.
	ErrUnsupported = store.ErrUnsupported

	// ErrStale: a fence has seen a newer token. See package fence.
	ErrStale = errors.New("holdfast: stale token")

	// ErrFloor: the store cannot issue a token above those that this client has seen.
	ErrFloor = store.ErrFloor

	// ErrFormat: the store holds data of a newer version of Holdfast.
	ErrFormat = store.ErrFormat
)

// An Error is the error of an operation.
type Error struct {
	Op    string // the operation: lock, unlock, acquire, inspect, ...
	Name  string // the name of the lock, or empty
	Store string // the name and masked address of the store, or empty
	Err   error  // the reason
}

// Error returns the error in one line. It has the prefix, the store and a cause once, however many errors of this
// package are wrapped in one another.
func (e *Error) Error() string { return prefix + e.text(mentioned{}) }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// A LockedError is an ErrLocked that describes the holder. If a Lock reached its deadline, it wraps the error of that
// context too. Fields that are not known are zero, and Ahead is -1.
type LockedError struct {
	Name   string
	Holder Owner         // the first holder
	Token  Token         // its token
	Since  time.Time     // since when it holds
	Left   time.Duration // after which time it expires if it is not renewed
	Ahead  int           // how many claims were ahead
	cause  error
}

// Error returns the error in one line.
func (e *LockedError) Error() string { return e.text(mentioned{}) }

// text returns the error without the prefix, and without the names that the error around it has mentioned.
func (e *LockedError) text(said mentioned) string {
	s := "locked"
	if !e.Since.IsZero() {
		s = fmt.Sprintf("locked by %s since %s, for another %v unless renewed", e.Holder,
			e.Since.Format(time.RFC3339), e.Left.Round(time.Millisecond))
	} else if e.Holder != (Owner{}) {
		s = fmt.Sprintf("locked by %s", e.Holder)
	}
	if e.Ahead > 1 {
		s += fmt.Sprintf(", %d ahead", e.Ahead)
	}
	if e.cause != nil {
		s += ": " + text(e.cause, said)
	}
	return s
}

// Unwrap returns ErrLocked, and the error of the context that ended the wait.
func (e *LockedError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrLocked}
	}
	return []error{ErrLocked, e.cause}
}

// lockedBy returns a *LockedError that describes the first holder of a queue.
func lockedBy(name string, holder *store.Entry, ahead int, cause error) *LockedError {
	e := &LockedError{Name: name, Ahead: ahead, cause: cause}
	if holder != nil {
		h := newEntry(holder)
		e.Holder, e.Token, e.Since, e.Left = h.Owner, h.Token, h.Since, h.Left
	}
	return e
}

// done returns the error of a context that has ended, with its cause if it has one.
func done(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	if lost, ok := errors.AsType[*partLost](cause); ok {
		return lost.err
	}
	return errors.Join(err, cause)
}
