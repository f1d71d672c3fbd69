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

// DefaultTTL is the ttl if nobody sets one and the store has none of its own. Where the store allows less, it is the most
// that it allows.
const DefaultTTL = 30 * time.Second

// How far a lock passes from goroutine to goroutine of a process by default, and how far it can at most.
const (
	DefaultTurns    = 64
	DefaultTurnsFor = 5 * time.Millisecond
	MaxTurns        = 127 // what a token has room for
)

// An Option is a setting. Given to New or Open it is the default for all locks of the client; given to a lock
// it is for that lock. A wrong one is an error when the lock is used, and for Open at once.
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
	forClient  string // an option that only a client has, if one was given
	ownerID    string
	reentrant  bool
	noDeadlock bool
	turns      int
	turnsFor   time.Duration

	owner *Owner // from label, id and the client's process
	err   error        // what is wrong with them
}

// TTL sets how long a claim lives without being renewed. After a holder's death the lock is free again when it
// has passed. A longer one rides out longer outages of the store; a shorter one frees sooner.
func WithTTL(d time.Duration) Option {
	return func(s *settings) { s.ttl = d; s.positive("WithTTL", d, ErrBadTTL) }
}

// WithFixedTTL ends a lease d after it was granted, however well it could be renewed, and gives the lock back then.
// Until then it is renewed like any other, so that the death of its holder still frees it after the ttl.
func WithFixedTTL(d time.Duration) Option {
	return func(s *settings) { s.fixed = d; s.positive("WithFixedTTL", d, ErrBadTTL) }
}

// Grace makes the store keep the place d longer than the holder believes it has. It gives what the holder set
// going time to end, after the holder has died or was cut off. It costs that much longer a wait for the next.
// A holder that has lost its lease and lives says by Unlock that all has ended, and the grace with it.
func WithGrace(d time.Duration) Option {
	return func(s *settings) { s.grace = d; s.positive("WithGrace", d, ErrBadOption) }
}

// Wait bounds how long a lock is waited for, beside what the context says.
func WithWait(d time.Duration) Option {
	return func(s *settings) { s.wait = d; s.positive("WithWait", d, ErrBadOption) }
}

// Label is a word for people who look at a line: which job, which part of the program.
func WithLabel(label string) Option {
	return func(s *settings) {
		s.label = label
		if len(label) > store.MaxName {
			s.wrong(fmt.Errorf("%w: a label has at most %d bytes", ErrBadOption, store.MaxName))
		}
	}
}

// Logger sets where lost leases and failing renewals are logged. Without it nothing is: whoever holds a lease
// learns of its loss from the lease.
func WithLogger(l *slog.Logger) Option {
	return func(s *settings) {
		s.logger, s.forClient = l, "WithLogger"
		if l == nil {
			s.wrong(fmt.Errorf("%w: WithLogger(nil)", ErrBadOption))
		}
	}
}

// Observe sets who is told of waits, leases and what becomes of them. It is for New and Open.
func WithObserver(o Observer) Option {
	return func(s *settings) {
		s.observer, s.forClient = o, "WithObserver"
		if o == nil {
			s.wrong(fmt.Errorf("%w: WithObserver(nil)", ErrBadOption))
		}
	}
}

// Owner gives the owner of a lock an identity of the caller's: a request's, a job's. Locks with the same identity
// are one owner to the search for deadlocks. Under a lease's context the lease's owner counts instead.
func WithOwner(id string) Option {
	return func(s *settings) {
		s.ownerID = id
		if err := store.CheckName(id); err != nil {
			s.wrong(errors.Join(fmt.Errorf("%w: WithOwner: an identity is like a name", ErrBadOption), err))
		}
	}
}

// Reentrant lets a lock be taken again under its own lease's context, without a word to the store. It is free
// when every lease was given back, in whatever order. Without this option that is ErrReentered, because it would
// wait for itself for ever.
func WithReentrance() Option { return func(s *settings) { s.reentrant = true } }

// WithoutDeadlockCheck waits without looking whether the wait closes a deadlock. It is for owners whose leases are
// unlocked by other goroutines than those that wait, where a cycle of waits may be none.
func WithoutDeadlockCheck() Option { return func(s *settings) { s.noDeadlock = true } }

// HandOver bounds how often, and for how long after it was granted, a lock passes from goroutine to goroutine of this
// process before it is given back to the store. More turns are faster, and let other processes wait longer. With 0
// turns the store's line alone decides: strictly first come, first served, at a round trip each. A store without a
// line is then asked for one goroutine after the other.
func WithHandOver(turns int, d time.Duration) Option {
	return func(s *settings) {
		s.turns, s.turnsFor = turns, d
		if turns < 0 || turns > MaxTurns || d < 0 {
			s.wrong(fmt.Errorf("%w: WithHandOver(%d, %v): it takes 0 to %d turns and a time that is not negative",
				ErrBadOption, turns, d, MaxTurns))
		}
	}
}

func (s *settings) positive(option string, d time.Duration, kind error) {
	if d <= 0 {
		s.wrong(fmt.Errorf("%w: %s(%v): it must be positive", kind, option, d))
	}
}

func (s *settings) wrong(err error) {
	if s.err == nil {
		s.err = err
	}
}

// with makes settings for a lock from those of its client.
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

// apply takes the options over these settings, and checks the whole against what the store can do.
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

// fit checks the settings against what the store can do.
func (s *settings) fit(a *Abilities) {
	switch {
	case s.ttl < a.MinTTL || s.ttl > a.MaxTTL:
		s.wrong(fmt.Errorf("%w: %v: the store can do %v to %v", ErrBadTTL, s.ttl, a.MinTTL, a.MaxTTL))
	case s.ttl < a.SessionTTL:
		s.wrong(fmt.Errorf("%w: %v: the store's session has %v, and a lock cannot have less", ErrBadTTL, s.ttl, a.SessionTTL))
	case a.SessionTTL > 0:
		s.ttl = a.SessionTTL // what it is, whoever asks for more
	}
	if s.fixed > longestFixed {
		s.wrong(fmt.Errorf("%w: WithFixedTTL(%v): %v is the most; without it a lease has no end", ErrBadTTL, s.fixed, longestFixed))
	}
	if s.grace > a.MaxTTL {
		s.wrong(fmt.Errorf("%w: WithGrace(%v): %v is the most", ErrBadOption, s.grace, a.MaxTTL))
	}
	if s.grace != 0 && !a.Grace {
		s.wrong(fmt.Errorf("%w: WithGrace", ErrUnsupported))
	}
}
