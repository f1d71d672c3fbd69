package main

import (
	"strings"
	"testing"
)

func TestAuditFindsWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name  string
		draws []draw
		want  string // empty: nothing
	}{
		{"nobody drew", nil, ""},
		{"two drew", []draw{{1, 0, 256}, {2, 1, 512}}, ""},
		{"a user drew twice", []draw{{1, 0, 256}, {1, 1, 512}}, "users who drew twice: 1, shares drawn twice: 0"},
		{"a share was drawn twice", []draw{{1, 0, 256}, {2, 0, 512}}, "users who drew twice: 0, shares drawn twice: 1"},
		{"a share was skipped", []draw{{1, 0, 256}, {2, 2, 512}}, "3.00 paid and 0.00 left of 10.00"},
		{"an older holder drew last", []draw{{1, 0, 512}, {2, 1, 256}}, "a token did not rise"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &packet{shares: []int{100, 700, 200}}
			for _, d := range test.draws {
				p.record(d)
			}
			found := p.audit()
			got := ""
			if err := found.problem(); err != nil {
				got = err.Error()
			}
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestSplitAddsUp(t *testing.T) {
	for _, test := range []struct{ cents, n int }{{1, 1}, {2, 1}, {2, 2}, {3, 2}, {100, 100}, {101, 100}, {10000, 20}} {
		for range 100 {
			shares := split(test.cents, test.n)
			sum := 0
			for _, share := range shares {
				if share < 1 {
					t.Fatalf("split(%d, %d) has a share of %d: %v", test.cents, test.n, share, shares)
				}
				sum += share
			}
			if len(shares) != test.n || sum != test.cents {
				t.Fatalf("split(%d, %d) = %v: %d shares of %d in all", test.cents, test.n, shares, len(shares), sum)
			}
		}
	}
}

func TestSplitIsRandom(t *testing.T) {
	first := split(1_000_000, 10)[0]
	for range 100 {
		if split(1_000_000, 10)[0] != first {
			return
		}
	}
	t.Errorf("the first share was %d a hundred times", first)
}
