//go:build !race

package holdfast_test

// How many programs TestModel runs.
const (
	modelSeeds      = 10_000
	modelSeedsShort = 500
)
