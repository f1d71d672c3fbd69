//go:build race

package holdfast_test

// How many programs TestModel runs. The race detector makes each some ten times slower.
const (
	modelSeeds      = 2_000
	modelSeedsShort = 100
)
