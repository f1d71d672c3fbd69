//go:build !linux

package servers

import "io"

// Only Linux has names for [reserve]. Elsewhere another test binary may take the port of a server that is stopped.
func reserve(int) (io.Closer, error) { return io.NopCloser(nil), nil }

// Only Linux says whether a process is paused. Elsewhere a signal that was sent must do.
func isPaused(int) (bool, error) { return true, nil }

// Only Linux lists the children of a process. Elsewhere they end by themselves, soon after it.
func childrenOf(int) ([]int, error) { return nil, nil }

func isGone(int) bool { return true }

// Only Linux is asked to remove shared memory.
func removeSharedMemory(int) error { return nil }
