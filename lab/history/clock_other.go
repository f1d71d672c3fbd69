//go:build !linux

package history

import (
	"os"
	"time"
)

const clockName = "wall clock"

// Now returns the current instant. It is comparable with the instants of other processes of this machine unless the
// clock is set meanwhile.
func Now() Instant { return Instant(time.Now().UnixNano()) }

// bootID identifies the machine: the wall clock does not start again with each boot.
func bootID() (string, error) { return os.Hostname() }
