package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// What can go wrong, to be asked for with errors.Is. A failure of the store itself is none of these: it is a
// [store.Fault], and never read as contention. An ErrMismatch is also a [store.MismatchError], which says how the
// name is in use.
var (
	ErrLocked      = errors.New("holdfast: locked")                                     // somebody else holds it
	ErrLost        = errors.New("holdfast: lease lost")                                 // it ended before it was given back
	ErrNotHeld     = store.ErrNotHeld                                                   // it was given back already, or never held
	ErrReentered   = errors.New("holdfast: taken again under its own lease")            // see the option Reentrant
	ErrUpgrade     = errors.New("holdfast: a shared lease cannot become a greater one") // it would wait for itself
	ErrDowngrade   = errors.New("holdfast: this lease cannot be downgraded")            // no writer's, re-entered, or shown
	ErrDeadlock    = errors.New("holdfast: deadlock")                                   // the wait could not end: see DeadlockError
	ErrBadName     = store.ErrBadName                                                   // empty, too long, not UTF-8, or with a NUL byte
	ErrBadTTL      = errors.New("holdfast: bad ttl")                                    // not positive, or not what the store can do
	ErrBadUnits    = errors.New("holdfast: bad units")                                  // not positive, or more than the limit
	ErrBadOption   = errors.New("holdfast: bad option")                                 // another option has a value it cannot have
	ErrNilContext  = errors.New("holdfast: nil context")                                // a call was given nil instead of a context
	ErrMismatch    = store.ErrMismatch                                                  // the name is in use with another kind or limit
	ErrClosed      = store.ErrClosed                                                    // the client was closed
	ErrUnsupported = store.ErrUnsupported                                               // the store cannot do this
	ErrStale       = errors.New("holdfast: stale token")                                // a fence has seen a newer one (package fence)
	ErrFloor       = store.ErrFloor                                                     // the store went back behind tokens already given
	ErrFormat      = store.ErrFormat                                                    // the store holds data of a newer version
)

// An Error says which operation on which name failed, on which store, and why.
type Error struct {
	Op    string // lock, unlock, acquire, inspect, ...
	Name  string // empty: it is about no name
	Store string // empty: it is about no store
	Err   error
}

// Error writes it in one line. The prefix, the store and a cause stand in it once, however many errors of this package
// are wrapped in one another.
func (e *Error) Error() string { return prefix + e.text(mentioned{}) }

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

// A LockedError says who is in the way. It is ErrLocked and, if a Lock ran into its deadline, that context's
// error too. What is not known is zero, and Ahead -1.
type LockedError struct {
	Name   string
	Holder Owner   // the first holder
	Token  Token         // its token
	Since  time.Time     // since when it holds
	Left   time.Duration // how long it still has if it is not renewed
	Ahead  int           // how many claims were ahead
	cause  error
}

// Error writes it in one line.
func (e *LockedError) Error() string { return e.text(mentioned{}) }

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

// Unwrap makes it ErrLocked, and the error of the context that ended the wait.
func (e *LockedError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrLocked}
	}
	return []error{ErrLocked, e.cause}
}

// lockedBy describes the first holder of a line.
func lockedBy(name string, holder *store.Entry, ahead int, cause error) *LockedError {
	e := &LockedError{Name: name, Ahead: ahead, cause: cause}
	if holder != nil {
		p := newPlace(holder)
		e.Holder, e.Token, e.Since, e.Left = p.Owner, p.Token, p.Since, p.Left
	}
	return e
}

// done is the error of a context that ended, with its cause if it was given one.
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
