package sqlite

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// readClock finds the machine's clock. CLOCK_BOOTTIME goes on while the machine is suspended.
func readClock() (clock, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return clock{}, fmt.Errorf("which start of the machine this is cannot be read: %w", err)
	}
	boot := strings.TrimSpace(string(id))
	// Containers of one machine share its clock, unless they were given one of their own.
	if space, err := os.Readlink("/proc/self/ns/time"); err == nil {
		boot += " " + space
	}
	return clock{boot: boot, now: func() time.Duration { return read(unix.CLOCK_BOOTTIME) }}, nil
}

func read(which int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(which, &t); err != nil {
		panic("holdfast: the kernel has no such clock: " + err.Error()) // it has had it since 2.6.39
	}
	return time.Duration(t.Nano())
}
