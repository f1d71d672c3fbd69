package holdfast

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// reenter looks whether ctx comes from a lease of the very lock that w wants. If it does, w gets a lease of the
// same claim, or an error, because it would wait for itself. If not, it gets neither.
func (w *wish) reenter() (*Lease, error) {
	c := w.lock.client
	has := int32(0)
	for l := liveLease(w.outer); l != nil; l = liveLease(leaseFrom(l.parent)) {
		if l.client.abilities.Identity != c.abilities.Identity || l.claim.Name != w.lock.name || l.claim.Kind != w.ask.Kind {
			continue
		}
		if l.claim.Limit != w.ask.Limit {
			continue // the store says that it does not match
		}
		if w.lock.settings.reentrant {
			if again, err := w.enterAgain(l); again != nil || err != nil {
				return again, err
			}
			continue // it was lost just now
		}
		if w.ask.Kind == store.Lock && w.ask.Units > l.units() {
			return nil, ErrUpgrade
		}
		// Of a semaphore one can have more than one lease, as long as that can ever be granted. A reader that reads
		// again would wait behind a writer that waits for it.
		if has += l.units(); w.ask.Kind == store.Lock || has+w.ask.Units > w.ask.Limit {
			return nil, ErrReentered
		}
	}
	return nil, nil
}

// enterAgain makes one more lease of l's claim.
func (w *wish) enterAgain(l *Lease) (*Lease, error) {
	c, cl := l.client, l.claim
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl.phase != held || l.ended.Load() != nil {
		return nil, nil
	}
	if w.ask.Units > cl.Units {
		if cl.Kind == store.Lock {
			return nil, ErrUpgrade
		}
		return nil, fmt.Errorf("%w: it has %d units of %d, and %d are wanted", ErrUpgrade, cl.Units, cl.Limit, w.ask.Units)
	}
	first := cl.lease
	again := c.lease(w, new(Lease), cl)
	again.token = l.token
	cl.lease, cl.more = first, append(cl.more, again)
	return again, nil
}

// units is how many units the lease's claim has now.
func (l *Lease) units() int32 {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	return l.claim.Units
}

// stillHas takes l off the leases of a claim, and says whether others are left.
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
