//go:build !linux

package servers

import (
	"testing"
	"time"
)

// A Clock is the wall clock that servers see, as a test sets it. There is one only on Linux.
type Clock struct{}

// NewClock skips the test: servers' clocks can be set only on Linux.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	t.Skip("left out, because the clock that a server sees can be set only on Linux")
	return nil
}

// Env returns the environment variable with which a server uses this clock.
func (*Clock) Env() []string { return nil }

// Step moves the clock, forward or back.
func (*Clock) Step(time.Duration) {}

// Offset returns how far the clock is ahead of the real one.
func (*Clock) Offset() time.Duration { return 0 }
