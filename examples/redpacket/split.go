package main

import (
	"math/rand/v2"
	"slices"
)

// split divides cents into n random shares of at least one cent. It needs a cent for each.
//
// It cuts what remains after that cent at n-1 random places. Whatever the places are, the pieces add up.
func split(cents, n int) []int {
	rest := cents - n
	cuts := make([]int, n-1, n)
	for i := range cuts {
		cuts[i] = rand.IntN(rest + 1)
	}
	slices.Sort(cuts)
	shares := make([]int, 0, n)
	from := 0
	for _, to := range append(cuts, rest) {
		shares = append(shares, 1+to-from)
		from = to
	}
	return shares
}
