//go:build race

package knot_test

// The race detector makes everything some ten times slower.
const (
	orderedStates = 50_000
	randomSystems = 2_000
)
