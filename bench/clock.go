package main

import (
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// A clock tells the time that all processes of this machine share, in nanoseconds. To ask the kernel for it is a system
// call, so it is asked once, and Go's own monotonic clock, which costs far less, is added.
type clock struct {
	start time.Time
	base  int64
	slack int64 // the shared time is at most what now says, and less than that by at most this
}

func newClock() clock {
	var best clock
	for i := range 100 {
		before := time.Now()
		base := int64(history.Now())
		if slack := int64(time.Since(before)); i == 0 || slack < best.slack {
			best = clock{start: before, base: base, slack: slack}
		}
	}
	return best
}

// now is this moment, or up to slack later.
func (c clock) now() int64 { return c.base + int64(time.Since(c.start)) }

// surely is this moment, or up to slack earlier. A hold that begins at now and ends at surely is never longer than it
// was, so that two of them that overlap have overlapped in truth.
func (c clock) surely() int64 { return c.now() - c.slack }

// until is how long it is to an instant.
func (c clock) until(instant int64) time.Duration { return time.Duration(instant - c.now()) }
