package broken_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/broken"
)

// seeds is how many schedules of each rung are played.
const seeds = 5

// TestLadder: with each of five seeds each rung's check sees the broken lock break, within the rung's budget, and no
// check sees anything of Holdfast's lock in the same schedule.
func TestLadder(t *testing.T) {
	lab := newLab(t)
	for _, r := range broken.Rungs() {
		t.Run(r.Name, func(t *testing.T) {
			for _, program := range r.Needs {
				servers.Need(t, program)
			}
			t.Parallel()
			for seed := range uint64(seeds) {
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
					t.Parallel()
					o, err := lab.Play(t.Context(), r, seed)
					if err != nil {
						t.Fatal(err)
					}
					took := o.Broken.End.Sub(o.Broken.Begin) + o.Holdfast.End.Sub(o.Holdfast.Begin)
					if took > r.Budget {
						t.Errorf("it took %v, and its budget is %v", took, r.Budget)
					}
					if !o.Caught() {
						t.Errorf("the broken lock was not caught: %v\n%s", o.Broken.Findings(), told(o.Broken))
					}
					if !o.Passed() {
						t.Errorf("Holdfast: %v\n%s", o.Holdfast.Findings(), told(o.Holdfast))
					}
				})
			}
		})
	}
}

// told is what happened, one step in each line.
func told(p *broken.Performance) (text string) {
	for _, e := range p.Events {
		text += fmt.Sprintf("%6d ms  %s %s\n", e.At.Sub(p.Begin).Milliseconds(), e.Who, e.Text)
	}
	return text
}
