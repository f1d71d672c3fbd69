//go:build !linux && !darwin && !windows

package sqlite

import (
	"fmt"
	"runtime"

	"github.com/holdfast-go/holdfast/store"
)

// readClock returns store.ErrUnsupported: on this system it is not known when the machine was started, and deadlines
// from before a restart would count.
func readClock() (clock, error) {
	return clock{}, fmt.Errorf("%w: the SQLite store is not built for %s", store.ErrUnsupported, runtime.GOOS)
}
