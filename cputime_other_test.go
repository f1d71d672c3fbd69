//go:build !unix

package holdfast_test

import "time"

var started = time.Now()

// cpuTime returns the time that has passed, on systems that do not report processor time.
func cpuTime() time.Duration { return time.Since(started) }
