package sqlite

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// readClock returns the machine's clock. On macOS CLOCK_MONOTONIC_RAW continues while the machine sleeps, and its rate
// is never adjusted.
func readClock() (clock, error) {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return clock{}, fmt.Errorf("which start of the machine this is cannot be read: %w", err)
	}
	return clock{boot: id, now: func() time.Duration {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &t); err != nil {
			panic("holdfast: the kernel has no such clock: " + err.Error())
		}
		return time.Duration(t.Nano())
	}}, nil
}
