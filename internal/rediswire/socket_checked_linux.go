//go:build race || msan || asan

package rediswire

import (
	"errors"
	"syscall"
)

// systemCall reads or writes so that the detectors of races and of wrong memory know of it.
func systemCall(trap, fd uintptr, b []byte) (n int, failed syscall.Errno) {
	call := syscall.Read
	if trap == syscall.SYS_WRITE {
		call = syscall.Write
	}
	n, err := call(int(fd), b) //nolint:gosec // descriptors are small
	if err != nil && !errors.As(err, &failed) {
		failed = syscall.EIO
	}
	return max(n, 0), failed
}
