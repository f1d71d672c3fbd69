//go:build !race

package knot_test

const (
	orderedStates = 1_000_000
	randomSystems = 10_000
)
