package main

import "testing"

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
