// Package grant has the rule that decides who holds:
//
//	Claims on a resource stand in a line, in order of arrival.
//	The longest prefix of the line that fits is held. The rest waits.
//
// It is pure: no time, no I/O, no state but the counts. Stores that read a line and sort it in Go call [Held].
// Stores that keep the line in memory carry a [Prefix] along, so that a change costs what changed and not the
// whole line. Stores that evaluate elsewhere (a script, a query) are tested against it.
package grant

import (
	"iter"

	"github.com/holdfast-go/holdfast/store"
)

// Held says how many claims at the head of the line are held. It stops reading at the first that is not.
func Held(line iter.Seq[store.Demand]) int {
	var p Prefix
	held := 0
	for a := range line {
		if !p.Admit(a) {
			break
		}
		held++
	}
	return held
}

// Mismatch says whether newcomer may not stand in a line with this head. A mismatching claim that got into a
// line nevertheless ends the prefix. It is never skipped: that would let it hold beside a later one.
func Mismatch(head, newcomer store.Demand) bool {
	return head.Kind != newcomer.Kind || head.Limit != newcomer.Limit
}

// A Prefix is the held part of a line: how much of which limit is in use. The zero value is an empty one.
type Prefix struct {
	head store.Demand // kind and limit of everyone in it
	held int
	used int64
}

// Resume is a prefix that was counted elsewhere: so many claims, with so many units in use. Head is any of them.
func Resume(head store.Demand, held int, used int64) Prefix { return Prefix{head, held, used} }

// Admit takes the next claim of the line in, if it fits. The caller offers claims in order of arrival, and none
// behind one that did not fit.
func (p *Prefix) Admit(next store.Demand) bool {
	if p.held == 0 {
		p.head = next
	}
	if Mismatch(p.head, next) || p.used+int64(next.Units) > int64(next.Limit) {
		return false
	}
	p.held++
	p.used += int64(next.Units)
	return true
}

// Remove takes out a claim that was admitted.
func (p *Prefix) Remove(held store.Demand) {
	p.held--
	p.used -= int64(held.Units)
}

// Shrink makes an admitted claim smaller by these units.
func (p *Prefix) Shrink(units int32) { p.used -= int64(units) }

// Held is how many claims are in the prefix.
func (p *Prefix) Held() int { return p.held }
