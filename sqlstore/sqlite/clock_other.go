//go:build !linux && !darwin && !windows

package sqlite

import (
	"fmt"
	"runtime"

	"github.com/holdfast-go/holdfast/store"
)

// readClock refuses: without knowing which start of the machine this is, deadlines of before would count.
func readClock() (clock, error) {
	return clock{}, fmt.Errorf("%w: the SQLite store is not built for %s", store.ErrUnsupported, runtime.GOOS)
}
