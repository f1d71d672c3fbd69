package history

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const clockName = "CLOCK_MONOTONIC"

// Now returns the current instant. It is comparable with the instants of other processes of this machine.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("holdfast: history: no monotonic clock: " + err.Error()) // every Linux has one
	}
	return Instant(ts.Nano())
}

// bootID identifies the boot of the machine: the clock starts again with each.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}
