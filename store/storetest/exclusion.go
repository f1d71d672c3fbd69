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
	{"restart", 0, restartKeepsExclusion},
}}

func mutexesExclude(t *trial) {
	all := store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
	crowd(t, all, all, all)
}

func semaphoresExclude(t *trial) {
	crowd(t,
		store.Demand{Kind: store.Semaphore, Units: 1, Limit: 5},
		store.Demand{Kind: store.Semaphore, Units: 2, Limit: 5},
		store.Demand{Kind: store.Semaphore, Units: 5, Limit: 5},
	)
}

func readersAndWritersExclude(t *trial) {
	one := store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders}
	all := store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
	crowd(t, one, all, one)
}

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
	name := t.name("restart")
	holder, other := t.open().mutex(name), t.open().mutex(name)
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
