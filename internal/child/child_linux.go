package child

import "syscall"

// EndsWithParent reports whether the kernel kills a child when its parent dies.
const EndsWithParent = true

// Attributes put a child into a process group of its own, so that Ctrl-C reaches its parent alone, which ends it. If
// the parent is killed, the kernel kills the child, also one that is paused.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
