package check

import (
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/lab/history"
)

// LostUpdate is the rule that no acknowledged update of a register disappears.
const LostUpdate Rule = "lost update"

// An Update is a read of a register followed by a write that depends on it, which the register has acknowledged. The
// interval lasts from the request to read until the response to the write.
type Update struct {
	history.Who
	Register string
	history.Interval
	Read, Wrote uint64
}

// LostUpdates finds acknowledged updates that another acknowledged update of the same register has overwritten unread.
// Its property: no two updates have read the same value. It assumes that a register never returns to a value that it
// had before, as a version or a stock that is only sold does: then each value is replaced once, and a second update
// that has read it has overwritten the first without having seen it. It reports the first 100 findings.
func LostUpdates(updates []Update) []Finding {
	type value struct {
		register string
		read     uint64
	}
	sorted := slices.SortedStableFunc(slices.Values(updates), func(a, b Update) int { return cmp.Compare(a.End, b.End) })
	first := map[value]Update{}
	var found []Finding
	for _, u := range sorted {
		v := value{u.Register, u.Read}
		before, again := first[v]
		if !again {
			first[v] = u
			continue
		}
		s := &search{resource: u.Register}
		s.report(LostUpdate, nil, "both %v and %v read %d and wrote %d and %d: the update of %v is lost",
			before.Who, u.Who, u.Read, before.Wrote, u.Wrote, before.Who)
		if found = append(found, s.found...); len(found) == maxFindings {
			break
		}
	}
	return found
}
