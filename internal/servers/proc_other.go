//go:build !linux

package servers

import (
	"errors"
	"syscall"
	"time"
)

// Only Linux ends a child with its parent. Elsewhere a server outlives a test binary that is killed.
const endsWithParent = false

func attributes() *syscall.SysProcAttr { return nil }

// Elsewhere a signal that was sent must do.
func isPaused(int) (bool, error) { return true, nil }

func cpuTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
