//go:build !race

package sim

import (
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// controls are the rules of package vote, and what must be found when one of them is off.
var controls = []struct {
	name string
	off  vote.Without
	want Kind
}{
	{"Quarantine", vote.Quarantine, Overlap},
	{"AdmissionMark", vote.AdmissionMark, Order},
	{"VotersMarks", vote.VotersMarks, Order},
	{"VotesOnKeep", vote.VotesOnKeep, Overlap},
	{"OneMaxTTL", vote.OneMaxTTL, Overlap},
	{"OwnValues", vote.OwnValues, Overlap},
	{"TimeFromSent", vote.TimeFromSent, Overlap},
	{"Drift", vote.Drift, Overlap},
	{"TimeAfterRaise", vote.TimeAfterRaise, Order},
	{"Continuity", vote.Continuity, Order},
	{"WriteBack", vote.WriteBack, Order},
	{"AboveMarks", vote.AboveMarks, Order},
	{"RaiseAtOwn", vote.RaiseAtOwn, Order},
	{"Tombstones", vote.Tombstones, Residue},
	{"LeaveAgain", vote.LeaveAgain, Residue},
	{"RepeatLeave", vote.RepeatLeave, Residue},
	{"LeaveFailed", vote.LeaveFailed, Residue},
	{"Jitter", vote.Jitter, Wait},
}

// TestControls takes away one rule after the other. The same schedules that find nothing with all rules must find each
// fault, or a check that finds nothing would say nothing. The seeds and the schedules are the same with and without.
// But the themes were weighted until each rule was missed: fickle is there for VotesOnKeep, whose fault is too rare
// otherwise.
func TestControls(t *testing.T) {
	for _, c := range controls {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			var found []Finding
			at := uint64(schedules)
			eachSeed(schedules, func(seed uint64) bool {
				all := Run(seed, c.off, nil).Findings
				i := slices.IndexFunc(all, func(f Finding) bool { return f.Kind == c.want })
				if i < 0 {
					return true
				}
				mu.Lock()
				defer mu.Unlock()
				if seed < at {
					found, at = all[i:i+1], seed
				}
				return false
			})
			if len(found) == 0 {
				t.Fatalf("no %s in %d schedules", c.want, schedules)
			}
			t.Logf("%v\nto see it: go test ./redlock/internal/sim -run TestSchedules -seed=%d -without=%d -v", found[0],
				at, c.off)
		})
	}
}
