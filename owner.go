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

// thisProcess describes the process to people who inspect a queue. Fields that the machine does not provide are empty.
var thisProcess = sync.OnceValue(func() Owner {
	host, _ := os.Hostname() // a nameless host is shown without a name
	return Owner{Host: host, Address: firstAddress(), PID: os.Getpid()}
})

// processOwner returns the owner of a client's claims, before options.
func processOwner(started time.Time) *Owner {
	o := thisProcess()
	o.Started = started.Round(0)
	return &o
}

// firstAddress returns an address of this machine, for hosts that all have the same name.
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

// An owner is what deadlocks are between. Each outermost Lock has one, which its lease's context carries to the locks
// under it, and so has each identity of WithOwner. If an owner has only one claim and no identity, the claim's ID
// identifies it, and the owner is nil. Owners are guarded by the client's mu.
type owner struct {
	id       string
	claims   []*claim // its claims in this client's store, held and waiting
	waits    []*claim // those of them that have waited long enough to be published
	requests int      // its calls that are under way
}

// owners has the owners that have claims or requests, by id.
type owners map[string]*owner

// enter sets the owner of r. leave undoes it.
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
	// Adopt the claims of the same owner that were its only ones until now.
	for l := outer; l != nil; l = liveLease(leaseFrom(l.parent)) {
		if cl := l.claim; l.client == r.lock.client && cl.owner == nil && cl.phase == held && l.ownerID() == id {
			o.adopt(cl)
		}
	}
}

// leave notes that a request of its owner is over.
func (all owners) leave(r *request) {
	r.owner.requests--
	all.forget(r.owner)
}

// disown removes cl from its owner.
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

// forget removes an owner without claims and requests.
func (all owners) forget(o *owner) {
	if len(o.claims) == 0 && o.requests == 0 {
		delete(all, o.id)
	}
}

// adopt makes o, which may be nil, the owner of cl, which has none.
func (o *owner) adopt(cl *claim) {
	if cl.owner = o; o != nil {
		o.claims = append(o.claims, cl)
	}
}

// wantsOneThing reports whether the owner of a request has no claims and no other requests.
func (o *owner) wantsOneThing() bool { return o == nil || len(o.claims) == 0 && o.requests <= 1 }

// only reports whether cl is the owner's only claim, and it has no requests.
func (o *owner) only(cl *claim) bool {
	return o == nil || len(o.claims) == 1 && o.claims[0] == cl && o.requests == 0
}

// holdsBeside reports whether the owner holds anything but cl.
func (o *owner) holdsBeside(cl *claim) bool {
	return slices.ContainsFunc(o.claims, func(x *claim) bool { return x != cl && x.phase == held })
}

// stopsWaitingFor withdraws the published wait for cl. The next Keep reports that to the store; until then the edge
// does not count, because cl no longer waits there.
func (o *owner) stopsWaitingFor(cl *claim) {
	o.waits = slices.DeleteFunc(o.waits, func(x *claim) bool { return x == cl })
}

// edges returns the published waits of the owner, for Keep.
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

// shownOwner returns the owner of r as other clients see it in the queue.
func (r *request) shownOwner() *Owner {
	shown := r.lock.settings.owner
	if r.owner == nil || r.owner.id == shown.ID {
		return shown
	}
	named := *shown
	named.ID = r.owner.id
	return &named
}

// leaseFrom returns the innermost lease that ctx comes from, or nil.
func leaseFrom(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// liveLease returns l, or the next lease around it that is not over, or nil.
func liveLease(l *Lease) *Lease {
	for l != nil && l.Err() != nil {
		l = leaseFrom(l.parent)
	}
	return l
}

// ownerID returns the identity of the owner of locks under the lease's context.
func (l *Lease) ownerID() string {
	if l.owner != "" {
		return l.owner
	}
	return l.claim.ID.String()
}

// reenter checks whether ctx comes from a lease of the lock that r requests. If it does, reenter returns a lease of the
// same claim, or an error, because r would wait for itself. If not, it returns neither.
func (r *request) reenter() (*Lease, error) {
	c := r.lock.client
	has := int32(0)
	for l := liveLease(r.outer); l != nil; l = liveLease(leaseFrom(l.parent)) {
		if l.client.abilities.Identity != c.abilities.Identity || l.claim.Name != r.lock.name ||
			l.claim.Kind != r.demand.Kind {
			continue
		}
		if l.claim.Limit != r.demand.Limit {
			continue // the store returns a MismatchError
		}
		if r.lock.settings.reentrant {
			if again, err := r.enterAgain(l); again != nil || err != nil {
				return again, err
			}
			continue // it has just been lost
		}
		if r.demand.Kind == store.Lock && r.demand.Units > l.units() {
			return nil, ErrUpgrade
		}
		// An owner can have several leases of a semaphore, as long as all its units together can ever be granted. A
		// reader that reads again would wait behind a writer that waits for it.
		if has += l.units(); r.demand.Kind == store.Lock || has+r.demand.Units > r.demand.Limit {
			return nil, ErrReentered
		}
	}
	return nil, nil
}

// enterAgain returns one more lease of the claim of l, for a reentrant call. It returns nil, nil if l has ended, and
// ErrUpgrade if more units are requested than the claim has.
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
		return nil, fmt.Errorf("%w: it has %d units of %d, and %d are requested",
			ErrUpgrade, cl.Units, cl.Limit, r.demand.Units)
	}
	first := cl.lease
	again := c.lease(r, new(Lease), cl)
	again.token = l.token
	cl.lease, cl.more = first, append(cl.more, again)
	return again, nil
}

// units returns how many units the lease's claim has now.
func (l *Lease) units() int32 {
	l.client.begin()
	defer l.client.end()
	return l.claim.Units
}

// stillHas removes l from the leases of a claim, and reports whether others are left.
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
