package sqlite

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// readClock returns the machine's clock. CLOCK_BOOTTIME continues while the machine is suspended. A container may have
// an offset to it, which is subtracted, so that all processes of the machine agree.
func readClock() (clock, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return clock{}, fmt.Errorf("which start of the machine this is cannot be read: %w", err)
	}
	offsets, _ := os.ReadFile("/proc/self/timens_offsets") // older kernels have no such thing
	offset := bootOffset(string(offsets))
	return clock{boot: strings.TrimSpace(string(id)), now: func() time.Duration { return bootTime() - offset }}, nil
}

// bootOffset reads a line of "boottime SECONDS NANOSECONDS".
func bootOffset(offsets string) time.Duration {
	for line := range strings.Lines(offsets) {
		var seconds, nanos int64
		if n, _ := fmt.Sscanf(line, "boottime %d %d", &seconds, &nanos); n == 2 {
			return time.Duration(seconds)*time.Second + time.Duration(nanos)
		}
	}
	return 0
}

func bootTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("holdfast: the kernel has no such clock: " + err.Error()) // it has had it since 2.6.39
	}
	return time.Duration(t.Nano())
}
