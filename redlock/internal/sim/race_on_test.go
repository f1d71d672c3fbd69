//go:build race

package sim

// How many schedules TestSchedules runs. The race detector makes each some ten times slower.
const schedules = 2_000
