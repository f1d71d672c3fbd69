package demo

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestOverlaps(t *testing.T) {
	for _, test := range []struct {
		name  string
		holds []span
		want  int
	}{
		{"none", nil, 0},
		{"one after the other", []span{{0, 10, 1}, {10, 20, 2}, {20, 30, 1}}, 0},
		{"in any order", []span{{20, 30, 1}, {0, 10, 1}, {10, 20, 2}}, 0},
		{"a moment too long", []span{{0, 11, 1}, {10, 20, 2}}, 1},
		{"one within another", []span{{0, 100, 1}, {10, 20, 2}, {30, 40, 3}}, 2},
		{"three at once", []span{{0, 10, 1}, {1, 10, 2}, {2, 10, 3}}, 3},
		{"a long one hides none behind a short one", []span{{0, 100, 1}, {10, 20, 1}, {50, 60, 2}}, 1},
		{"a worker does not overlap with itself", []span{{0, 10, 1}, {5, 15, 1}}, 0},
		{"one that was over before it began", []span{{0, 10, 1}, {5, 4, 2}}, 0},
		{"one that never ends", []span{{0, forever, 1}, {1000, 2000, 2}}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := account{holds: test.holds}
			if got := a.overlaps(); got != test.want {
				t.Errorf("%d overlaps, want %d", got, test.want)
			}
		})
	}
}

// TestOverlapsAgainstTheDefinition compares the sweep with the definition, written the slowest way.
func TestOverlapsAgainstTheDefinition(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		var a account
		for range random.IntN(12) {
			begin := moment(random.IntN(20))
			a.holds = append(a.holds, span{begin, begin + moment(random.IntN(8)) - 1, random.IntN(4)})
		}
		want := 0
		for i, x := range a.holds {
			for _, y := range a.holds[i+1:] {
				if x.worker != y.worker && max(x.Begin, y.Begin) < min(x.End, y.End) {
					want++
				}
			}
		}
		if got := a.overlaps(); got != want {
			t.Fatalf("seed %d: %d overlaps, want %d: %v", seed, got, want, a.holds)
		}
	}
}

func TestVerdicts(t *testing.T) {
	apart := []span{{0, 10, 1}, {10, 20, 2}}
	together := []span{{0, 11, 1}, {10, 20, 2}}
	for _, test := range []struct {
		account account
		harm    string // what showsHarm says; empty: it is satisfied
		safety  string // what showsSafety says, of a run in which a worker was stopped
	}{
		{account{items: 10, sold: 11, holds: together}, "", "1 were oversold"},
		{account{items: 10, sold: 11, holds: apart}, "no two workers", "1 were oversold"},
		{account{items: 10, sold: 10, refused: 1, holds: apart}, "nothing was oversold", ""},
		{account{items: 10, sold: 10, holds: apart}, "nothing was oversold", "the fence refused no write"},
		{account{items: 10, sold: 9, refused: 1, holds: apart}, "nothing was oversold", "only 9 of 10"},
		{
			account{items: 10, sold: 10, refused: 1, holds: together}, "nothing was oversold",
			"at the same time, 1 times",
		},
	} {
		a := &test.account
		t.Run(
			fmt.Sprintf("%d of %d, %d refused, %d overlaps", a.sold, a.items, a.refused, a.overlaps()),
			func(t *testing.T) {
				checkVerdict(t, a.showsHarm(), test.harm)
				checkVerdict(t, a.showsSafety(true), test.safety)
			},
		)
	}
	unstopped := account{items: 10, sold: 10, holds: apart}
	checkVerdict(t, unstopped.showsSafety(false), "")
}

func checkVerdict(t *testing.T, got error, want string) {
	t.Helper()
	if want == "" && got != nil || want != "" && (got == nil || !strings.Contains(got.Error(), want)) {
		t.Errorf("the verdict is %v, want %q", got, want)
	}
}

// TestRunsVerdict fabricates rounds: a run fails if any one of them did not show what it is for, and says which.
func TestRunsVerdict(t *testing.T) {
	together := []span{{0, 11, 1}, {10, 20, 2}}
	harm := account{items: 10, sold: 12, holds: together}
	safe := account{items: 10, sold: 10, refused: 1}
	for _, test := range []struct {
		accounts [3]account
		want     string
	}{
		{[3]account{harm, harm, safe}, ""},
		{[3]account{safe, harm, safe}, "round 1 did not show"},
		{[3]account{harm, safe, safe}, "round 2 did not show"},
		{[3]account{harm, harm, harm}, "round 3 did not show"},
	} {
		rounds := []*round{{account: test.accounts[0]}, {account: test.accounts[1]},
			{account: test.accounts[2], order: order{Fence: true}}}
		checkVerdict(t, (&run{pausable: true}).verdict(rounds), test.want)
	}
}

func TestRate(t *testing.T) {
	a := account{sold: 50, took: 500 * time.Millisecond}
	if a.rate() != 100 {
		t.Errorf("50 in half a second are %v a second", a.rate())
	}
	if unsold := (&account{}); unsold.rate() != 0 {
		t.Errorf("nothing in no time is %v a second", unsold.rate())
	}
}
