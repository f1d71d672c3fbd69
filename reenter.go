package holdfast

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// reenter looks whether ctx comes from a lease of the very lock that r wants. If it does, r gets a lease of the
// same claim, or an error, because it would wait for itself. If not, it gets neither.
func (r *request) reenter() (*Lease, error) {
	c := r.lock.client
	has := int32(0)
	for l := liveLease(r.outer); l != nil; l = liveLease(leaseFrom(l.parent)) {
		if l.client.abilities.Identity != c.abilities.Identity || l.claim.Name != r.lock.name || l.claim.Kind != r.ask.Kind {
			continue
		}
		if l.claim.Limit != r.ask.Limit {
			continue // the store says that it does not match
		}
		if r.lock.settings.reentrant {
			if again, err := r.enterAgain(l); again != nil || err != nil {
				return again, err
			}
			continue // it was lost just now
		}
		if r.ask.Kind == store.Lock && r.ask.Units > l.units() {
			return nil, ErrUpgrade
		}
		// Of a semaphore one can have more than one lease, as long as that can ever be granted. A reader that reads
		// again would wait behind a writer that waits for it.
		if has += l.units(); r.ask.Kind == store.Lock || has+r.ask.Units > r.ask.Limit {
			return nil, ErrReentered
		}
	}
	return nil, nil
}

// enterAgain makes one more lease of l's claim.
func (r *request) enterAgain(l *Lease) (*Lease, error) {
	c, cl := l.client, l.claim
	c.begin()
	defer c.end()
	if cl.phase != held || l.ended.Load() != nil {
		return nil, nil
	}
	if r.ask.Units > cl.Units {
		if cl.Kind == store.Lock {
			return nil, ErrUpgrade
		}
		return nil, fmt.Errorf("%w: it has %d units of %d, and %d are wanted", ErrUpgrade, cl.Units, cl.Limit, r.ask.Units)
	}
	first := cl.lease
	again := c.lease(r, new(Lease), cl)
	again.token = l.token
	cl.lease, cl.more = first, append(cl.more, again)
	return again, nil
}

// units is how many units the lease's claim has now.
func (l *Lease) units() int32 {
	l.client.begin()
	defer l.client.end()
	return l.claim.Units
}

// stillHas takes l off the leases of a claim, and reports whether others are left.
func (cl *claim) stillHas(l *Lease) bool {
	if len(cl.more) == 0 {
		return false
	}
	if cl.lease == l {
		cl.lease, cl.more = cl.more[0], cl.more[1:]
		return true
	}
	cl.more = slices.DeleteFunc(cl.more, func(x *Lease) bool { return x == l })
	return true
}
