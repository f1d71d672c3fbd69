// Package grant has the rule that decides which claims hold:
//
//	Claims on a resource wait in a queue, in order of arrival.
//	The longest prefix of the queue that fits is held. The rest waits.
//
// A claim fits if it is of the kind of the first claim, and if its units and those of all claims before it are within
// its own limit. So claims with different limits can be in one queue while a limit is changed: each is granted only
// when it is within the limit that it was made with.
//
// It is pure: no time, no I/O, no state but the counts. Stores that read a queue and sort it in Go call [Held]. Stores
// that keep the queue in memory maintain a [Prefix], so that a change costs time by what changed and not by the length
// of the queue. Stores that evaluate the rule elsewhere (a script, a query) are tested against this package.
package grant

import (
	"iter"

	"github.com/holdfast-go/holdfast/store"
)

// Held returns how many claims at the head of the queue are held. It stops reading at the first that is not.
func Held(queue iter.Seq[store.Demand]) int {
	var p Prefix
	held := 0
	for d := range queue {
		if !p.Admit(d) {
			break
		}
		held++
	}
	return held
}

// Blocker returns the state of a claim that comes after these claims of a queue, of which demand returns each. If it is
// Waiting, by is the index of the claim that it waits for. It waits:
//   - if it wants everything, for the last;
//   - if it is a reader, for the last that readers can't hold beside;
//   - otherwise for any change of the queue: by is -1.
func Blocker(ahead int, demand func(i int) store.Demand, next store.Demand) (state store.State, by int) {
	var p Prefix
	fits := true
	for i := range ahead {
		fits = fits && p.Admit(demand(i))
	}
	if fits && p.Admit(next) {
		return store.Held, -1
	}
	if next.Units == next.Limit {
		return store.Waiting, ahead - 1
	}
	for by = ahead - 1; by >= 0; by-- {
		d := demand(by)
		if next.Kind == store.Lock && (d.Units == d.Limit || Mismatch(d, next, false)) {
			break
		}
	}
	return store.Waiting, by
}

// Mismatch reports whether newcomer may not join a queue whose first claim is head: the kinds differ or, unless
// anyLimit is set, the limits. A claim of another kind that is in a queue nevertheless ends the prefix. It is never
// skipped: otherwise it could hold at the same time as a later one.
func Mismatch(head, newcomer store.Demand, anyLimit bool) bool {
	return head.Kind != newcomer.Kind || !anyLimit && head.Limit != newcomer.Limit
}

// A Prefix is the held part of a queue: how many units of which kind are in use. The zero value is an empty prefix.
type Prefix struct {
	head store.Demand // the first claim that was admitted; all have its kind
	held int
	used int64
}

// Resume returns a prefix that was counted elsewhere: of held claims, which use that many units. head is any of them.
func Resume(head store.Demand, held int, used int64) Prefix { return Prefix{head, held, used} }

// Admit adds the next claim of the queue if it fits, and reports whether it did. The caller offers claims in order of
// arrival, and none behind one that did not fit.
func (p *Prefix) Admit(next store.Demand) bool {
	if p.held == 0 {
		p.head = next
	}
	if p.head.Kind != next.Kind || p.used+int64(next.Units) > int64(next.Limit) {
		return false
	}
	p.held++
	p.used += int64(next.Units)
	return true
}

// Remove removes a claim that was admitted.
func (p *Prefix) Remove(held store.Demand) {
	p.held--
	p.used -= int64(held.Units)
}

// Shrink reduces an admitted claim by these units.
func (p *Prefix) Shrink(units int32) { p.used -= int64(units) }

// Held returns how many claims are in the prefix.
func (p *Prefix) Held() int { return p.held }
