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

// A Part is one of the locks that LockAll takes: a *Mutex or a *RWMutex (for writing), RWMutex.Reader, or
// Semaphore.Units.
type Part interface {
	part() part
}

// A part is what is to be taken, and which of the caller's parts it is for.
type part struct {
	lock    *lock
	request request
	err     error
	wait    time.Duration // its option Wait, or 0
	uses    []int         // which of the arguments it stands for
}

func (p part) part() part { return p }

func (m *Mutex) part() part { return newPart(&m.lock, "lock", wholeLock) }

func (m *RWMutex) part() part { return newPart(&m.lock, "lock", wholeLock) }

// Reader is the read side, for LockAll.
func (m *RWMutex) Reader() Part { return newPart(&m.lock, "rlock", readLock) }

// Units is n units of the semaphore, for LockAll.
func (s *Semaphore) Units(n int) Part {
	ask, err := s.ask(n)
	p := newPart(&s.lock, "acquire", ask)
	p.err = err
	return p
}

func newPart(k *lock, op string, ask store.Demand) part {
	return part{lock: k, request: request{op: op, ask: ask}}
}

// LockAll takes many locks, of one client or of several, all or nothing. It takes them in one order, by the stores'
// identities and then by name, so that two LockAlls never wait for each other. ctx bounds the wait for the whole,
// and so does the shortest Wait of the parts. A lock that is named twice is taken once: for writing if either asks
// for that, and of a semaphore the sum of the units.
func LockAll(ctx context.Context, parts ...Part) (*MultiLease, error) {
	const op = "lock all"
	if ctx == nil {
		return nil, &Error{Op: op, Err: ErrNilContext}
	}
	ordered, err := order(parts)
	if one, ok := err.(*Error); ok && len(parts) == 1 { //nolint:errorlint // of one lock the error is that lock's own
		return nil, one
	}
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	var shortest time.Duration
	for _, p := range ordered {
		shortest = shorter(shortest, p.wait)
	}
	wait := ctx
	if shortest > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, shortest)
		defer cancel()
	}
	m := &MultiLease{tokens: make([]Token, len(parts))}
	under := context.WithoutCancel(ctx)
	for _, p := range ordered {
		l, err := p.take(wait, under)
		if err != nil {
			m.Unlock(ctx) //nolint:errcheck // what is not confirmed is repeated; err is what the caller must know
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

// take takes one lock under what was taken before: if that is lost, there is no use in waiting.
func (p *part) take(wait, under context.Context) (*Lease, error) {
	wait, cancel := context.WithCancelCause(wait)
	defer cancel(nil)
	defer context.AfterFunc(under, func() { cancel(&partLost{context.Cause(under)}) })()
	r := p.request
	r.patience, r.bound = wait, true
	return p.lock.acquire(under, &r)
}

// A partLost ends the wait for one lock because another that was taken before it is lost. The caller's own context
// lives, so that the wait ends with err and not with that of a context.
type partLost struct{ err error }

func (p *partLost) Error() string { return p.err.Error() }

// order checks the parts, merges those of one lock, and sorts them.
func order(parts []Part) ([]part, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: LockAll was given no parts", ErrBadOption)
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

// refused is the error of the i-th of n parts, which cannot be taken. Of several it has the number too: that says
// more than a bad name does.
func (p *part) refused(i, n int, err error) error {
	op := p.request.op
	if n > 1 {
		op = fmt.Sprintf("part %d: %s", i, op)
	}
	return p.lock.client.failed(op, p.lock.name, err)
}

// compare is the one order in which everybody takes locks. What is equal is the same lock.
func compare(a, b part) int {
	return cmp.Or(
		cmp.Compare(a.lock.client.abilities.Identity, b.lock.client.abilities.Identity),
		cmp.Compare(a.lock.name, b.lock.name))
}

// merge makes p what both p and q want.
func (p *part) merge(q part) error {
	p.wait = shorter(p.wait, q.wait)
	a, b := &p.request.ask, q.request.ask
	switch {
	case a.Kind != b.Kind || a.Limit != b.Limit:
		return &store.MismatchError{InUse: *a}
	case a.Kind == wholeLock.Kind:
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

// shorter is the shorter of two waits, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// A MultiLease is many locks that are held together.
type MultiLease struct {
	leases []*Lease // in the order in which they were taken; the context of each ends with that of the one before
	tokens []Token
}

// Tokens are the fencing tokens, one for each part, in the order of LockAll's arguments.
func (m *MultiLease) Tokens() []Token { return slices.Clone(m.tokens) }

// Context ends when any of the locks is lost, or when they are given back. See Lease.Context.
func (m *MultiLease) Context() context.Context { return m.leases[len(m.leases)-1].Context() }

// Err is nil while all are held. See Lease.Err.
func (m *MultiLease) Err() error {
	for _, l := range m.leases {
		if err := l.Err(); err != nil {
			return l.client.failed(opHold, l.claim.Name, err)
		}
	}
	return nil
}

// Until is the instant up to which all are known to be held.
func (m *MultiLease) Until() time.Time {
	first := m.leases[0].Until()
	for _, l := range m.leases[1:] {
		if u := l.Until(); u.Before(first) {
			first = u
		}
	}
	return first
}

// Unlock gives all of them back, the last first. See Lease.Unlock. The error names those that were lost.
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
