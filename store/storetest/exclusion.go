package storetest

import (
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var exclusion = rule{1, "exclusion", "The units of held claims never exceed the limit.", []scenario{
	{"mutexes", 0, mutexesExclude},
	{"semaphores", weights, semaphoresExclude},
	{"readers and writers", sharing, readersAndWritersExclude},
	{"a limit that changes", aQueue | weights, limitThatChanges},
	{"restart", 0, restartKeepsExclusion},
}}

func mutexesExclude(t *trial) { crowd(t, exclusive, exclusive, exclusive) }

func semaphoresExclude(t *trial) {
	crowd(t,
		store.Demand{Kind: store.Semaphore, Units: 1, Limit: 5},
		store.Demand{Kind: store.Semaphore, Units: 2, Limit: 5},
		store.Demand{Kind: store.Semaphore, Units: 5, Limit: 5},
	)
}

func readersAndWritersExclude(t *trial) { crowd(t, shared, exclusive, shared) }

// crowd lets three clients contend for one name. Each has one goroutine per demand, which acquires and releases it,
// round after round. The units held at any moment are counted.
func crowd(t *trial, demands ...store.Demand) {
	name := t.name("crowd")
	var held atomic.Int64
	for range 3 {
		c := t.open()
		for i, demand := range demands {
			t.async(func() {
				for round := range t.rounds {
					p := c.contend(name, demand)
					p.enter()
					if units := held.Add(int64(demand.Units)); units > int64(demand.Limit) {
						t.errorf("%d units of %d are held at once", units, demand.Limit)
					}
					time.Sleep(time.Duration(1+(i+round)%3) * time.Millisecond)
					held.Add(-int64(demand.Units))
					p.leave()
				}
			})
		}
	}
	t.wait()
}

// A server that restarts with its data must not forget its holders.
func restartKeepsExclusion(t *trial) {
	holder, other := t.rivals()
	holder.join(store.Held)
	began := time.Now()
	t.must("Restart with data", t.harness.Restart(true))
	holder.reach()
	other.reach()
	status, err := holder.keepOnce()
	switch {
	case err != nil:
		t.fatalf("Keep after a restart: %v", err)
	case status.State == store.Held:
		other.try(store.Gone)
	case time.Since(began) < t.ttl/2:
		t.errorf("a held claim is %v after a restart with data that took %v", status.State, time.Since(began))
	}
}

// A limit is raised and then lowered while the semaphore is in use. Each claim is granted when it is within its own
// limit, whatever the limits of the claims before it are.
func limitThatChanges(t *trial) {
	name := t.name("limit")
	claim := func(units, limit int32) *contender {
		p := t.open().semaphore(name, units, limit).lasts()
		p.claim.AnyLimit = true
		return p
	}
	first, larger, small, large := claim(2, 2), claim(1, 4), claim(1, 2), claim(3, 4)
	first.join(store.Held)
	larger.join(store.Held)   // three units of four
	small.join(store.Waiting) // three units are more than two
	large.join(store.Waiting)
	first.leave()
	small.keep(store.Held) // two units of two
	large.keep(store.Waiting)
	larger.keep(store.Held)
	larger.leave()
	large.keep(store.Held)
	small.keep(store.Held)
	if units := held(t.open().entries(name)); units != 4 {
		t.errorf("%d units are held, want 4", units)
	}
}

// held returns how many units these entries hold.
func held(entries []store.Entry) (units int32) {
	for _, e := range entries {
		if e.State == store.Held {
			units += e.Units
		}
	}
	return units
}
