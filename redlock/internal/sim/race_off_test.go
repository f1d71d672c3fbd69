//go:build !race

package sim

// How many schedules TestSchedules runs.
const schedules = 20_000
