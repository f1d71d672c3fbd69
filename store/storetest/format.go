package storetest

import (
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

var format = rule{12, "format", "A client that finds data of a newer version returns ErrFormat " +
	"and changes nothing.", []scenario{
	{"a newer queue", 0, newerQueue},
	{"a newer queue among others", 0, newerQueueAmongOthers},
	{"a newer queue in a list", aQueue, newerQueueIsListed},
}}

func newerQueue(t *trial) {
	name := t.name("newer")
	t.must("PlantNewer", t.harness.PlantNewer(name))
	before, err := t.harness.Residue(name)
	t.must("Residue", err)
	t.open().mutex(name).isRefused(store.ErrFormat, "in a newer queue")
	t.advance(t.takeover() + t.ttl) // nor may anything change later
	after, err := t.harness.Residue(name)
	t.must("Residue", err)
	if after != before {
		t.errorf("the store held %d things for a newer queue, and now holds %d", before, after)
	}
}

// A client that must not touch one queue still keeps its claims in others, also in the same call.
func newerQueueAmongOthers(t *trial) {
	c := t.open()
	good, newer := c.mutex(t.name("good")), c.mutex(t.name("newer"))
	t.must("PlantNewer", t.harness.PlantNewer(newer.claim.Name))
	good.join(store.Held)
	ctx, cancel := t.context()
	defer cancel()
	statuses, err := c.Keep(ctx, []store.Claim{newer.claim, good.claim})
	if err != nil || len(statuses) != 2 {
		t.fatalf("Keep of a newer queue's claim and another: %v and %d statuses, want 2", err, len(statuses))
	}
	if !errors.Is(statuses[0].Err, store.ErrFormat) {
		t.errorf("Keep in a newer queue: %v and %v, want %v", statuses[0].State, statuses[0].Err, store.ErrFormat)
	}
	if statuses[1].Err != nil || statuses[1].State != store.Held {
		t.errorf("Keep beside a newer queue: %v and %v, want held", statuses[1].State, statuses[1].Err)
	}
}
