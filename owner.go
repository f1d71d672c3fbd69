package holdfast

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// thisProcess describes the process to people who look at a line. What the machine does not tell stays empty.
var thisProcess = sync.OnceValue(func() Owner {
	host, _ := os.Hostname() // a nameless host is shown without a name
	return Owner{Host: host, Address: firstAddress(), PID: os.Getpid()}
})

// processOwner is the owner of a client's claims, as far as nobody says more.
func processOwner(started time.Time) *Owner {
	o := thisProcess()
	o.Started = started.Round(0)
	return &o
}

// firstAddress is an address by which others may know this machine, for hosts that all have the same name.
func firstAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}

// An owner is who takes locks: one for each outermost Lock, carried by its lease's context to the Locks under it,
// or one with an identity that the caller gave. One that never has more than a claim, and no given identity, needs
// none: its claim's ID stands for it. A nil owner is such a one. Guarded by the client's mu.
type owner struct {
	id       string
	claims   []*claim // what it has in lines of this client's store, held and waiting
	waits    []*claim // those of them that it has waited for long enough to say so
	requests int      // its calls that are under way
}

// owners are those that have or want something, by id.
type owners map[string]*owner

// enter finds the owner that r acts for. leave undoes it.
func (all owners) enter(r *request) {
	id := r.lock.settings.owner.ID
	outer := liveLease(r.outer)
	if outer != nil {
		id = outer.ownerID()
	}
	r.owner = nil
	if id == "" {
		return
	}
	o := all[id]
	if o == nil {
		o = &owner{id: id}
		all[id] = o
	}
	o.requests++
	r.owner = o
	// Claims of the same owner that had nothing beside them until now.
	for l := outer; l != nil; l = liveLease(leaseFrom(l.parent)) {
		if cl := l.claim; l.client == r.lock.client && cl.owner == nil && cl.phase == held && l.ownerID() == id {
			o.adopt(cl)
		}
	}
}

func (all owners) leave(r *request) {
	r.owner.requests--
	all.forget(r.owner)
}

// disown takes cl from its owner.
func (all owners) disown(cl *claim) {
	o := cl.owner
	if o == nil {
		return
	}
	cl.owner = nil
	o.claims = slices.DeleteFunc(o.claims, func(x *claim) bool { return x == cl })
	o.stopsWaitingFor(cl)
	all.forget(o)
}

// forget removes an owner that has and wants nothing.
func (all owners) forget(o *owner) {
	if len(o.claims) == 0 && o.requests == 0 {
		delete(all, o.id)
	}
}

// adopt makes o the owner of cl, which has none.
func (o *owner) adopt(cl *claim) {
	if cl.owner = o; o != nil {
		o.claims = append(o.claims, cl)
	}
}

// wantsOneThing reports whether the owner of a request has nothing, and wants nothing but that.
func (o *owner) wantsOneThing() bool { return o == nil || len(o.claims) == 0 && o.requests <= 1 }

// only reports whether the owner has cl and wants nothing else.
func (o *owner) only(cl *claim) bool {
	return o == nil || len(o.claims) == 1 && o.claims[0] == cl && o.requests == 0
}

// holdsBeside reports whether the owner holds anything but cl.
func (o *owner) holdsBeside(cl *claim) bool {
	return slices.ContainsFunc(o.claims, func(x *claim) bool { return x != cl && x.phase == held })
}

// stopsWaitingFor takes back that the owner waits for cl. The store learns of it by the next Keep; until then the
// edge counts for nothing, because cl does not wait there any more.
func (o *owner) stopsWaitingFor(cl *claim) {
	o.waits = slices.DeleteFunc(o.waits, func(x *claim) bool { return x == cl })
}

// edges is what the owner waits for, as its claims tell the store.
func (o *owner) edges() []store.Wait {
	if o == nil || len(o.waits) == 0 {
		return nil
	}
	edges := make([]store.Wait, len(o.waits))
	for i, cl := range o.waits {
		edges[i] = store.Wait{Name: cl.Name, ID: cl.ID}
	}
	return edges
}

// shownOwner is the owner of r as others see it in the line.
func (r *request) shownOwner() *Owner {
	shown := r.lock.settings.owner
	if r.owner == nil || r.owner.id == shown.ID {
		return shown
	}
	named := *shown
	named.ID = r.owner.id
	return &named
}

// leaseFrom is the innermost lease that ctx comes from.
func leaseFrom(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// liveLease is l, or the next lease around it that is not over.
func liveLease(l *Lease) *Lease {
	for l != nil && l.Err() != nil {
		l = leaseFrom(l.parent)
	}
	return l
}

// ownerID is the identity that Locks under the lease's context act for.
func (l *Lease) ownerID() string {
	if l.owner != "" {
		return l.owner
	}
	return l.claim.ID.String()
}

// reenter looks whether ctx comes from a lease of the very lock that r wants. If it does, r gets a lease of the
// same claim, or an error, because it would wait for itself. If not, it gets neither.
func (r *request) reenter() (*Lease, error) {
	c := r.lock.client
	has := int32(0)
	for l := liveLease(r.outer); l != nil; l = liveLease(leaseFrom(l.parent)) {
		if l.client.abilities.Identity != c.abilities.Identity || l.claim.Name != r.lock.name || l.claim.Kind != r.demand.Kind {
			continue
		}
		if l.claim.Limit != r.demand.Limit {
			continue // the store says that it does not match
		}
		if r.lock.settings.reentrant {
			if again, err := r.enterAgain(l); again != nil || err != nil {
				return again, err
			}
			continue // it was lost just now
		}
		if r.demand.Kind == store.Lock && r.demand.Units > l.units() {
			return nil, ErrUpgrade
		}
		// Of a semaphore one can have more than one lease, as long as that can ever be granted. A reader that reads
		// again would wait behind a writer that waits for it.
		if has += l.units(); r.demand.Kind == store.Lock || has+r.demand.Units > r.demand.Limit {
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
	if r.demand.Units > cl.Units {
		if cl.Kind == store.Lock {
			return nil, ErrUpgrade
		}
		return nil, fmt.Errorf("%w: it has %d units of %d, and %d are wanted", ErrUpgrade, cl.Units, cl.Limit, r.demand.Units)
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
