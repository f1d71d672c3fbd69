//go:build !linux

package servers

import "io"

// Only Linux has names for [reserve]. Elsewhere another test binary may take the port of a server that is stopped.
func reserve(int) (io.Closer, error) { return io.NopCloser(nil), nil }

// Only Linux says whether a process is paused. Elsewhere a signal that was sent must do.
func isPaused(int) (bool, error) { return true, nil }
