//go:build unix

package demo

import "golang.org/x/sys/unix"

func now() moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("holdfast: this system has no monotonic clock: " + err.Error())
	}
	return moment(t.Nano())
}
