package storetest

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// suite has every rule of the contract, in the order of package store's documentation.
var suite = []rule{
	methods, exclusion, order, floor, lifetime, until, identity, truth, unknown, leaks, names, honesty, format,
	detaching, watching,
}

// A rule is a rule of the contract, with the cases that show whether a store obeys it.
type rule struct {
	number  int
	name    string
	summary string // the rule in a sentence, so that a failure explains itself
	cases   []scenario
}

// explain returns the failures of a case, preceded by its rule.
func (r rule) explain(failures []string) string {
	return fmt.Sprintf("rule %d, %s: %s\n%s", r.number, r.name, r.summary, strings.Join(failures, "\n"))
}

// A scenario is one case: a schedule that breaks a store which does not obey the rule.
type scenario struct {
	name  string
	needs need // what a store must be able to do for the case to make sense
	run   func(*trial)
}

// A need is a set of abilities.
type need uint8

const (
	aQueue    need = 1 << iota // the store has a queue
	sharing                    // it has readers
	weights                    // it has semaphores, and claims that shrink
	someGrace                  // it can keep a claim for longer than its owner believes in it
	ownTTLs                    // each claim has a ttl of its own
	detach                     // claims can be detached
	exactWake                  // a release wakes only claims that then fit: the harness is not a LooseWaker
)

// missing returns the abilities of n that a store lacks, in words. It is empty if the store has all of them.
func (n need) missing(h Harness, able store.Abilities) string {
	var lacks []string
	_, loose := h.(LooseWaker)
	for _, a := range []struct {
		need need
		has  bool
		word string
	}{
		{aQueue, able.Queue, "queue"},
		{sharing, able.Shared, "shared claims"},
		{weights, able.Shared && !able.ReadersOnly, "semaphores"},
		{someGrace, able.Grace, "grace"},
		{detach, able.Detach, "detached claims"},
		{ownTTLs, able.SessionTTL == 0, "ttl per claim"},
		{exactWake, !loose, "exact wake-ups"},
	} {
		if n&a.need != 0 && !a.has {
			lacks = append(lacks, a.word)
		}
	}
	return strings.Join(lacks, ", ")
}
