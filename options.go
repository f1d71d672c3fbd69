package holdfast

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// longestFixed is the greatest WithFixedTTL: beyond it, instants no longer fit into 64 bits of nanoseconds.
const longestFixed = 10 * 365 * 24 * time.Hour

// DefaultTTL is the ttl if no option sets one and the store has none of its own. If the store allows less, the default
// is the longest that it allows.
const DefaultTTL = 30 * time.Second

// The default of WithHandOver, and its greatest number of turns.
const (
	DefaultTurns    = 64
	DefaultTurnsFor = 5 * time.Millisecond
	MaxTurns        = 127 // the room in a token
)

// An Option is a setting. Passed to New or Open it is the default for all locks of the client; passed to a lock it is
// for that lock. Open returns an error if an option is wrong. Elsewhere a wrong option is an error of the lock's
// methods.
type Option func(*settings)

// settings are the options of a client or of one lock. They do not change once they are made.
type settings struct {
	ttl    time.Duration
	grace  time.Duration
	fixed  time.Duration
	wait   time.Duration
	label  string
	logger *slog.Logger

	observer   Observer
	forClient  string // the name of an option that is only for a client, if there is one
	ownerID    string
	reentrant  bool
	noDeadlock bool
	turns      int
	turnsFor   time.Duration
	atLeast    time.Duration
	anyLimit   bool

	owner *Owner // from label, id and the client's process
	err   error  // what is wrong with them
}

// WithTTL sets how long a claim lives without being renewed. If a holder dies, its lock is free when the ttl has
// passed. With a longer ttl leases survive longer outages of the store; with a shorter one a dead holder's lock is free
// sooner.
func WithTTL(d time.Duration) Option {
	return func(s *settings) { s.ttl = d; s.positive("WithTTL", d, ErrBadTTL) }
}

// WithFixedTTL ends a lease d after it was granted, even if it could be renewed, and releases the lock then. Until then
// the lease is renewed like any other, so that after the death of its holder the lock is still free when the ttl has
// passed.
func WithFixedTTL(d time.Duration) Option {
	return func(s *settings) { s.fixed = d; s.positive("WithFixedTTL", d, ErrBadTTL) }
}

// WithGrace makes the store keep a claim for d longer than the holder believes that it holds. If the holder dies or is
// cut off, work that it started elsewhere has that time to end. The next holder waits that much longer. A holder that
// is alive and has lost its lease ends the grace with Unlock, when all its work has ended.
func WithGrace(d time.Duration) Option {
	return func(s *settings) { s.grace = d; s.positive("WithGrace", d, ErrBadOption) }
}

// WithWait bounds the wait for a lock, in addition to the context.
func WithWait(d time.Duration) Option {
	return func(s *settings) { s.wait = d; s.positive("WithWait", d, ErrBadOption) }
}

// WithLabel sets a label for people who inspect a queue: the job, or the part of the program.
func WithLabel(label string) Option {
	return func(s *settings) {
		s.label = label
		if len(label) > store.MaxName {
			s.wrong(fmt.Errorf("%w: a label has at most %d bytes", ErrBadOption, store.MaxName))
		}
	}
}

// WithLogger sets the logger for lost leases and failing renewals. Without it nothing is logged: a holder learns of a
// loss from its lease. It is for New and Open.
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) {
		s.logger, s.forClient = l, "WithLogger"
		if l == nil {
			s.wrong(fmt.Errorf("%w: WithLogger(nil)", ErrBadOption))
		}
	}
}

// WithObserver sets the Observer of waits and leases. It is for New and Open.
func WithObserver(o Observer) Option {
	return func(s *settings) {
		s.observer, s.forClient = o, "WithObserver"
		if o == nil {
			s.wrong(fmt.Errorf("%w: WithObserver(nil)", ErrBadOption))
		}
	}
}

// WithOwner sets the identity of the lock's owner, such as that of a job or a request. To the search for deadlocks,
// locks with the same identity have one owner. Under a lease's context the lease's owner counts instead.
func WithOwner(id string) Option {
	return func(s *settings) {
		s.ownerID = id
		if err := store.CheckName(id); err != nil {
			s.wrong(errors.Join(fmt.Errorf("%w: WithOwner: an identity is like a name", ErrBadOption), err))
		}
	}
}

// WithReentrance allows a lock to be acquired again under its own lease's context, without a call of the store. The
// lock is free when every lease was unlocked, in whatever order. Without this option the second request gets
// ErrReentered, because it would wait for itself for ever.
func WithReentrance() Option { return func(s *settings) { s.reentrant = true } }

// WithoutDeadlockCheck disables the search for deadlocks. It is for owners whose leases are unlocked by other
// goroutines than those that wait, where a cycle of waits may not be a deadlock.
func WithoutDeadlockCheck() Option { return func(s *settings) { s.noDeadlock = true } }

// WithHandOver bounds how often, and for how long after it was granted, a lock is handed over from goroutine to
// goroutine of this process before it is released in the store. More turns are faster, and other processes wait longer.
// With 0 turns the store's queue alone decides: strictly first come, first served, with a round trip each. In a store
// without a queue the goroutines of the process then request the lock one after the other.
func WithHandOver(turns int, d time.Duration) Option {
	return func(s *settings) {
		s.turns, s.turnsFor = turns, d
		if turns < 0 || turns > MaxTurns || d < 0 {
			s.wrong(fmt.Errorf("%w: WithHandOver(%d, %v): it needs 0 to %d turns and a time that is not negative",
				ErrBadOption, turns, d, MaxTurns))
		}
	}
}

// WithAtLeast keeps a lock taken until d after it was granted, even if it is unlocked before that, and even if its
// process exits after Unlock or Close has returned. It is for jobs that are scheduled on several machines whose clocks
// differ: without it, a job that takes a millisecond has released its lock before the next machine's clock says that it
// is time, and runs once on each. Choose d longer than the clocks can differ, and shorter than the time between two
// runs. [Client.Once] is stricter: it also holds for a process that dies.
//
// The lease ends with Unlock, as always. Unlock costs the same as without the option. If the process dies before
// Unlock, or ends after an Unlock or a Close that the store did not confirm, the lock is free when the ttl has passed.
// Where the store's shortest ttl is longer than what is left of d, as a session's in etcd, the lock stays taken for
// that. For a lease that was attached, d counts from then on. A lock with this option is not handed over inside the
// process.
func WithAtLeast(d time.Duration) Option {
	return func(s *settings) { s.atLeast = d; s.positive("WithAtLeast", d, ErrBadOption) }
}

// WithLimitChange lets a semaphore be used with another number of units than other clients use, for the time in which
// the number changes: without it, a client with another number gets ErrMismatch until all others have released theirs.
// With it, each claim is granted only if the units that are held, with its own, are within its own number. So no holder
// loses anything, a larger number takes effect at once for the clients that have it, and a smaller one as holders
// leave. Claims that were made with the larger number count as before: while both are in use, the larger one is the
// bound. Set it in all clients before the number is changed. For locks it has no effect.
func WithLimitChange() Option { return func(s *settings) { s.anyLimit = true } }

// positive notes an error that wraps kind if d is not positive.
func (s *settings) positive(option string, d time.Duration, kind error) {
	if d <= 0 {
		s.wrong(fmt.Errorf("%w: %s(%v): it must be positive", kind, option, d))
	}
}

// wrong notes the error of an option. The first error counts.
func (s *settings) wrong(err error) {
	if s.err == nil {
		s.err = err
	}
}

// with returns the settings of a lock, made from those of its client.
func (s *settings) with(options []Option, a *Abilities) *settings {
	if len(options) == 0 {
		return s
	}
	n := *s
	n.forClient = ""
	n.apply(options, a)
	if n.forClient != "" {
		n.wrong(fmt.Errorf("%w: %s is for New and Open", ErrBadOption, n.forClient))
	}
	return &n
}

// apply applies the options to these settings, and checks the result against the store's abilities.
func (s *settings) apply(options []Option, a *Abilities) {
	for _, o := range options {
		if o == nil {
			s.wrong(fmt.Errorf("%w: a nil Option", ErrBadOption))
			continue
		}
		o(s)
	}
	if s.label != s.owner.Label || s.ownerID != s.owner.ID {
		owner := *s.owner
		owner.Label, owner.ID = s.label, s.ownerID
		s.owner = &owner
	}
	s.fit(a)
}

// fit checks the settings against the store's abilities.
func (s *settings) fit(a *Abilities) {
	switch {
	case s.ttl < a.MinTTL || s.ttl > a.MaxTTL:
		s.wrong(fmt.Errorf("%w: %v: the store allows %v to %v", ErrBadTTL, s.ttl, a.MinTTL, a.MaxTTL))
	case s.ttl < a.SessionTTL:
		s.wrong(fmt.Errorf("%w: %v: it is shorter than the ttl of the store's session, %v", ErrBadTTL, s.ttl,
			a.SessionTTL))
	case a.SessionTTL > 0:
		s.ttl = a.SessionTTL // even if more was requested
	}
	if s.fixed > longestFixed {
		s.wrong(fmt.Errorf("%w: WithFixedTTL(%v): it can be at most %v; without it a lease has no end", ErrBadTTL,
			s.fixed, longestFixed))
	}
	if s.grace > a.MaxTTL {
		s.wrong(fmt.Errorf("%w: WithGrace(%v): it can be at most %v", ErrBadOption, s.grace, a.MaxTTL))
	}
	if s.atLeast > a.MaxTTL {
		s.wrong(fmt.Errorf("%w: WithAtLeast(%v): it can be at most %v", ErrBadOption, s.atLeast, a.MaxTTL))
	}
	if s.atLeast != 0 && !a.Detach {
		s.wrong(fmt.Errorf("%w: WithAtLeast", ErrUnsupported))
	}
	if s.grace != 0 && !a.Grace {
		s.wrong(fmt.Errorf("%w: WithGrace", ErrUnsupported))
	}
}
