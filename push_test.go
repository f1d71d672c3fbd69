package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// A pushed rig is a client whose store a test can push through, and what it has joined with.
type pushedRig struct {
	*rig
	*counter
	client *holdfast.Client
	joined []store.Claim // with their tickets
}

func (p *pushedRig) Join(ctx context.Context, c store.Claim) (store.Standing, error) {
	standing, err := p.counter.Join(ctx, c)
	c.Ticket = standing.Ticket
	p.joined = append(p.joined, c)
	return standing, err
}

func (r *rig) pushed() *pushedRig {
	p := &pushedRig{rig: r, counter: &counter{Store: r.server.Connect()}}
	p.client = holdfast.New(p)
	r.Cleanup(func() { p.client.Close() })
	return p
}

// TestPushedGrantNeedsItsTicket: a grant is pushed for a claim that waits. It is believed only with the claim's own
// ticket; with another one the store is asked, which says that the claim still waits.
func TestPushedGrantNeedsItsTicket(t *testing.T) {
	for what, test := range map[string]struct {
		ticket   func(own uint64) uint64
		believed bool
	}{
		"its own":        {func(own uint64) uint64 { return own }, true},
		"none":           {func(uint64) uint64 { return 0 }, false},
		"the next":       {func(own uint64) uint64 { return own + 1 }, false},
		"the one before": {func(own uint64) uint64 { return own - 1 }, false},
		"the greatest":   {func(uint64) uint64 { return store.MaxTicket }, false},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				first := r.lock(r.client().Mutex("x").Lock)
				p := r.pushed()
				waiter := r.begin(p.client.Mutex("x").Lock)
				own := p.joined[0]
				p.push(own.ID, store.Standing{State: store.Held, Ticket: test.ticket(own.Ticket)})
				if synctest.Wait(); waiter.done() != test.believed {
					t.Fatalf("believed: %v, while another holds: %v", waiter.done(), first.Err())
				}
				if asked := p.keeps.Load() == 1; asked == test.believed {
					t.Errorf("%d keeps", p.keeps.Load())
				}
			})
		})
	}
}

// TestPushedLossIsAskedAfter: a push says that a claim is gone. The store is asked at once, and believed.
func TestPushedLossIsAskedAfter(t *testing.T) {
	for what, gone := range map[string]bool{"true": true, "forged": false} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				p := r.pushed()
				l := r.lock(p.client.Mutex("x").Lock)
				own := p.joined[0]
				if gone {
					r.server.Erase("x", own.ID)
				}
				p.push(own.ID, store.Standing{State: store.Gone, Ticket: own.Ticket})
				if synctest.Wait(); errors.Is(l.Err(), holdfast.ErrLost) != gone || p.keeps.Load() != 1 {
					t.Fatalf("%v after %d keeps", l.Err(), p.keeps.Load())
				}
			})
		})
	}
}

// TestPushedLossWhileAnAnswerIsLate: a forged loss is asked after, and the answer takes longer than pushes are hushed
// for. A true loss that is pushed meanwhile is asked after when it has come.
func TestPushedLossWhileAnAnswerIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const late = ttl / 8
		var own store.Claim
		d := &detour{}
		d.join = func(ctx context.Context, c store.Claim) (store.Standing, error) {
			standing, err := d.Store.Join(ctx, c)
			own, own.Ticket = c, standing.Ticket
			return standing, err
		}
		answer := sync.OnceFunc(func() { time.Sleep(late) })
		d.keep = func(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
			standings, err := d.Store.Keep(ctx, cs)
			answer()
			return standings, err
		}
		l := r.lock(r.around(d).Mutex("x").Lock)
		d.push(own.ID, store.Standing{State: store.Gone, Ticket: own.Ticket})
		r.pass(late / 4)
		r.server.Erase("x", own.ID)
		d.push(own.ID, store.Standing{State: store.Gone, Ticket: own.Ticket})
		if r.pass(late); !errors.Is(l.Err(), holdfast.ErrLost) {
			t.Fatalf("not noticed: %v", l.Err())
		}
	})
}

// TestFloodOfPushesIsBounded: somebody pushes again and again what is not so, a thousand times per ttl. That costs a
// bounded number of calls, and what is true is still noticed.
func TestFloodOfPushesIsBounded(t *testing.T) {
	for what, forged := range map[string]store.State{"losses": store.Gone, "grants": store.Held} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				const claims = 10
				p := r.pushed()
				leases := make([]*holdfast.Lease, claims)
				for i := range leases {
					name := fmt.Sprint(i)
					if forged == store.Held {
						r.lock(r.client().Mutex(name).Lock)
						r.begin(p.client.Mutex(name).Lock)
					} else {
						leases[i] = r.lock(p.client.Mutex(name).Lock)
					}
				}
				flood := func(state store.State) {
					for _, c := range p.joined[:claims] {
						p.push(c.ID, store.Standing{State: state, Ticket: c.Ticket + 1})
					}
				}
				for range 1000 {
					flood(forged)
					r.pass(ttl / 1000)
				}
				if most := int64(claims * 64); p.kept.Load() > most {
					t.Errorf("%d claims were kept in a ttl, and %d are the most", p.kept.Load(), most)
				}
				if forged == store.Held {
					return
				}
				r.server.Erase("0", p.joined[0].ID)
				for range 100 {
					flood(forged)
					r.pass(ttl / 1000)
				}
				if !errors.Is(leases[0].Err(), holdfast.ErrLost) || leases[1].Err() != nil {
					t.Errorf("the one that is gone: %v; another: %v", leases[0].Err(), leases[1].Err())
				}
			})
		})
	}
}

// TestIDsTellNothingOfEachOther: whoever has heard the IDs of some claims knows nothing of the next.
func TestIDsTellNothingOfEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		p := r.pushed()
		const claims = 500
		for range claims {
			r.unlock(r.lock(p.client.Mutex("x").Lock))
		}
		seen := map[store.ID]bool{}
		for at := range len(store.ID{}) {
			values := map[byte]bool{}
			for _, c := range p.joined {
				values[c.ID[at]] = true
				seen[c.ID] = true
			}
			if len(values) < 128 { // of 500 random ones, some 220
				t.Errorf("byte %d has only %d values in %d IDs", at, len(values), claims)
			}
		}
		if len(seen) != claims {
			t.Errorf("%d IDs for %d claims", len(seen), claims)
		}
	})
}
