package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Part is one of the locks that LockAll acquires: a *Mutex or a *RWMutex (for writing), RWMutex.Reader, or
// Semaphore.Units.
type Part interface {
	part() part
}

// A part is one lock to acquire, and the arguments of the caller that it stands for.
type part struct {
	lock    *lock
	request request
	err     error
	wait    time.Duration // the option WithWait, or 0
	uses    []int         // the indices of the caller's arguments that it stands for
}

func (p part) part() part { return p }

func (m *Mutex) part() part { return newPart(&m.lock, "lock", wholeLock) }

func (m *RWMutex) part() part { return newPart(&m.lock, "lock", wholeLock) }

// Reader returns the read side of the lock, for LockAll.
func (m *RWMutex) Reader() Part { return newPart(&m.lock, "rlock", readLock) }

// Units returns n units of the semaphore, for LockAll. If n is not possible, LockAll returns ErrBadUnits.
func (s *Semaphore) Units(n int) Part {
	demand, err := s.demand(n)
	p := newPart(&s.lock, "acquire", demand)
	p.err = err
	return p
}

// newPart returns the part that requests demand of a lock.
func newPart(k *lock, op string, demand store.Demand) part {
	return part{lock: k, request: request{op: op, demand: demand}}
}

// LockAll acquires many locks, of one client or of several: all of them or none. It acquires them in one order, by the
// stores' identities and then by name, so that two calls of LockAll never wait for each other. ctx bounds the wait for
// all of them, and so does the shortest WithWait of the parts. A lock that is named twice is acquired once: for writing
// if either part is for writing, and for a semaphore with the sum of the units.
//
// The errors are those of [Mutex.Lock], of the first lock that could not be acquired, and ErrBadOption if there are no
// parts or one of them is nil. The locks that were acquired before are released.
func LockAll(ctx context.Context, parts ...Part) (*MultiLease, error) {
	return lockAll(ctx, "lock all", parts, groupOptions{})
}

// TryLockAll acquires many locks as [LockAll] does if all of them are free, and does not wait. If one is not free, it
// holds none of them, and the error wraps a *LockedError with the name of the first lock that is not free. The other
// errors are those of LockAll.
func TryLockAll(ctx context.Context, parts ...Part) (*MultiLease, error) {
	return lockAll(ctx, "trylock all", parts, groupOptions{try: true})
}

// DoAll acquires many locks as [LockAll] does, calls fn, and releases them. tokens are the fencing tokens of the parts,
// in the order of the arguments; with several locks, [TokenFrom] finds none in fn's context. ctx bounds the wait and
// fn. The context that fn receives ends the moment any of the locks is lost.
//
// DoAll returns the errors of [LockAll], or else fn's error. If a lock was lost in the meantime, the error wraps
// ErrLost too and names the lock: another holder may have worked at the same time as fn. A release that the store did
// not confirm is not an error: it is repeated in the background.
func DoAll(ctx context.Context, fn func(ctx context.Context, tokens []Token) error, parts ...Part) error {
	const op = "lock all"
	if fn == nil {
		return &Error{Op: op, Err: errNoFunction}
	}
	m, err := lockAll(ctx, op, parts, groupOptions{bound: true})
	if err != nil {
		return err
	}
	return withLoss(callUnder(ctx, m, func(ctx context.Context) error { return fn(ctx, m.Tokens()) }))
}

// groupOptions has what LockAll, TryLockAll and DoAll do differently.
type groupOptions struct {
	try   bool // do not wait
	bound bool // the caller's context bounds the leases too
}

// lockAll acquires the locks for LockAll, TryLockAll and DoAll, which differ in op and o.
func lockAll(ctx context.Context, op string, parts []Part, o groupOptions) (*MultiLease, error) {
	if ctx == nil {
		return nil, &Error{Op: op, Err: ErrNilContext}
	}
	ordered, err := order(parts)
	if one, ok := err.(*Error); ok && len(parts) == 1 { //nolint:errorlint // the error of one lock names that lock
		return nil, one
	}
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	wait := ctx
	if !o.try {
		var cancel context.CancelFunc
		wait, cancel = boundWait(ctx, ordered)
		defer cancel()
	}
	m := &MultiLease{tokens: make([]Token, len(parts))}
	under := ctx
	if !o.bound {
		under = context.WithoutCancel(ctx)
	}
	for _, p := range ordered {
		p.request.grouped = len(ordered) > 1
		if o.try {
			p.request.op, p.request.try = "try"+p.request.op, true
		}
		l, err := p.acquire(ctx, wait, under)
		if err != nil {
			for _, l := range m.leases {
				l.forgoStay()
			}
			m.Unlock(ctx) //nolint:errcheck // an unconfirmed release is repeated; the caller needs err
			return nil, err
		}
		m.leases = append(m.leases, l)
		for _, i := range p.uses {
			m.tokens[i] = l.token
		}
		under = l.Context() //nolint:fatcontext // each context ends with the one before: that is the point
	}
	return m, nil
}

// boundWait bounds ctx by the shortest WithWait of the parts.
func boundWait(ctx context.Context, parts []part) (context.Context, context.CancelFunc) {
	var shortest time.Duration
	for _, p := range parts {
		shortest = shorter(shortest, p.wait)
	}
	if shortest == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, shortest)
}

// acquire acquires one lock under the context of the locks that were acquired before. If one of those is lost, the wait
// ends: it would be for nothing. caller is the context of the whole call.
func (p *part) acquire(caller, wait, under context.Context) (*Lease, error) {
	wait, cancel := context.WithCancelCause(wait)
	defer cancel(nil)
	defer context.AfterFunc(under, func() {
		if caller.Err() == nil { // otherwise under may have ended with caller, and wait has ended too
			cancel(&partLost{context.Cause(under)})
		}
	})()
	r := p.request
	r.patience, r.bound = wait, true
	return p.lock.acquire(under, &r)
}

// A partLost ends the wait for one lock because another that was acquired before it is lost. The caller's own context
// has not ended, so the wait ends with err and not with the error of a context.
type partLost struct{ err error }

func (p *partLost) Error() string { return p.err.Error() }

// order checks the parts, merges those of one lock, and sorts them.
func order(parts []Part) ([]part, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: there are no parts", ErrBadOption)
	}
	var all []part
	for i, given := range parts {
		if given == nil {
			return nil, fmt.Errorf("%w: part %d is nil", ErrBadOption, i)
		}
		p := given.part()
		p.uses, p.wait = []int{i}, p.lock.settings.wait
		if err := errors.Join(p.err, p.lock.err); err != nil {
			return nil, p.refused(i, len(parts), err)
		}
		same := slices.IndexFunc(all, func(q part) bool { return compare(q, p) == 0 })
		if same < 0 {
			all = append(all, p)
			continue
		}
		if err := all[same].merge(p); err != nil {
			return nil, p.refused(i, len(parts), err)
		}
	}
	slices.SortFunc(all, compare)
	return all, nil
}

// refused returns the error of the i-th of n parts, which cannot be acquired. If there are several, the error has the
// number too: a bad name alone may not identify the part.
func (p *part) refused(i, n int, err error) error {
	op := p.request.op
	if n > 1 {
		op = fmt.Sprintf("part %d: %s", i, op)
	}
	return p.lock.client.failed(op, p.lock.name, err)
}

// compare is the one order in which every client acquires locks. Equal parts are the same lock.
func compare(a, b part) int {
	return cmp.Or(
		cmp.Compare(a.lock.client.abilities.Identity, b.lock.client.abilities.Identity),
		cmp.Compare(a.lock.name, b.lock.name))
}

// merge adds the demand of q, a part of the same lock, to p.
func (p *part) merge(q part) error {
	p.wait = shorter(p.wait, q.wait)
	a, b := &p.request.demand, q.request.demand
	switch {
	case a.Kind != b.Kind || a.Limit != b.Limit:
		return &MismatchError{InUse: *a}
	case a.Kind == KindLock:
		if b.Units > a.Units {
			p.request = q.request
		}
	case a.Units+b.Units > a.Limit:
		return fmt.Errorf("%w: together %d of %d", ErrBadUnits, a.Units+b.Units, a.Limit)
	default:
		a.Units += b.Units
	}
	p.uses = append(p.uses, q.uses...)
	return nil
}

// shorter returns the shorter of two waits. 0 stands for no bound.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// A MultiLease is many locks that are held together.
type MultiLease struct {
	leases []*Lease // in the order of acquisition; the context of each ends with that of the one before
	tokens []Token
}

// Tokens returns the fencing tokens, one for each part, in the order of LockAll's arguments.
func (m *MultiLease) Tokens() []Token { return slices.Clone(m.tokens) }

// Context returns a context that ends when any of the locks is lost, or when they are released. See [Lease.Context].
func (m *MultiLease) Context() context.Context { return m.leases[len(m.leases)-1].Context() }

// Err returns nil while all locks are held, and otherwise the error of one that is not. See [Lease.Err].
func (m *MultiLease) Err() error {
	for _, l := range m.leases {
		if err := l.Err(); err != nil {
			return l.client.failed(opHold, l.claim.Name, err)
		}
	}
	return nil
}

// Until returns the instant up to which all locks are known to be held.
func (m *MultiLease) Until() time.Time {
	first := m.leases[0].Until()
	for _, l := range m.leases[1:] {
		if u := l.Until(); u.Before(first) {
			first = u
		}
	}
	return first
}

// Unlock releases all locks, in the reverse order of acquisition. The errors are those of [Lease.Unlock]. The error
// names each lock that was lost.
func (m *MultiLease) Unlock(ctx context.Context) error {
	var errs []error
	for _, l := range slices.Backward(m.leases) {
		if err := l.Unlock(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return &several{errs}
}
