//go:build !race && !msan && !asan

package rediswire

import (
	"syscall"
	"unsafe"
)

// systemCall reads or writes without telling the scheduler.
func systemCall(trap, fd uintptr, b []byte) (n int, failed syscall.Errno) {
	at := unsafe.Pointer(unsafe.SliceData(b)) //nolint:gosec // it is used in the call only
	r, _, failed := syscall.RawSyscall(trap, fd, uintptr(at), uintptr(len(b)))
	if failed != 0 {
		return 0, failed
	}
	return int(r), 0 //nolint:gosec // at most len(b)
}
