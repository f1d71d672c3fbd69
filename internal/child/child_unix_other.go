//go:build unix && !linux

package child

import "syscall"

// EndsWithParent reports whether the kernel kills a child when its parent dies. It hangs up on one that is paused.
const EndsWithParent = false

// Attributes put a child into a process group of its own, so that Ctrl-C reaches its parent alone, which ends it.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
