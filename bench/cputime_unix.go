//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is how much processor time this process has used.
func cpuTime() (time.Duration, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
