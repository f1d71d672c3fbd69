package history

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const clockName = "CLOCK_MONOTONIC"

// Now is this moment. It can be compared with moments of other processes of this machine.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("holdfast: history: no monotonic clock: " + err.Error()) // every Linux has one
	}
	return Instant(ts.Nano())
}

// bootID tells apart the times between which the clock starts again.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}
