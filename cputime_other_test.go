//go:build !unix

package holdfast_test

import "time"

var started = time.Now()

// cpuTime is the time that has passed, where the processor's cannot be had.
func cpuTime() time.Duration { return time.Since(started) }
