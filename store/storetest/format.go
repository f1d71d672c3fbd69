package storetest

import (
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

var format = rule{12, "format", "A client that meets what a newer version wrote says so with ErrFormat " +
	"and touches nothing.", []scenario{
	{"a newer line", 0, newerLine},
	{"a newer line among others", 0, newerLineAmongOthers},
	{"a newer queue in a list", aLine, newerQueueIsListed},
}}

func newerLine(t *trial) {
	name := t.name("newer")
	t.must("PlantNewer", t.harness.PlantNewer(name))
	before, err := t.harness.Residue(name)
	t.must("Residue", err)
	p := t.open().mutex(name)
	for _, call := range t.calls() {
		if !call.named {
			continue
		}
		ctx, cancel := t.context()
		err := call.do(ctx, p.Store, p.claim)
		cancel()
		if !errors.Is(err, store.ErrFormat) || !store.Final(err) {
			t.errorf("%s in a newer line: %v, want %v", call.name, err, store.ErrFormat)
		}
	}
	t.advance(t.takeover() + t.ttl) // nor does what the calls may have left clean up after them
	after, err := t.harness.Residue(name)
	t.must("Residue", err)
	if after != before {
		t.errorf("the store held %d things for a newer line, and now holds %d", before, after)
	}
}

// A client that must not touch one line still keeps its others, also in the same call.
func newerLineAmongOthers(t *trial) {
	c := t.open()
	good, newer := c.mutex(t.name("good")), c.mutex(t.name("newer"))
	t.must("PlantNewer", t.harness.PlantNewer(newer.claim.Name))
	good.join(store.Held)
	ctx, cancel := t.context()
	defer cancel()
	standings, err := c.Keep(ctx, []store.Claim{newer.claim, good.claim})
	if err != nil || len(standings) != 2 {
		t.fatalf("Keep of a newer line's claim and another: %v and %d standings, want 2", err, len(standings))
	}
	if !errors.Is(standings[0].Err, store.ErrFormat) {
		t.errorf("Keep in a newer line: %v and %v, want %v", standings[0].State, standings[0].Err, store.ErrFormat)
	}
	if standings[1].Err != nil || standings[1].State != store.Held {
		t.errorf("Keep beside a newer line: %v and %v, want held", standings[1].State, standings[1].Err)
	}
}
