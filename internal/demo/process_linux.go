package demo

import "syscall"

// childAttributes put a worker into a process group of its own, so that Ctrl-C reaches the coordinator alone, who ends
// it. Should the coordinator be killed, the kernel kills the worker, also one that is stopped and cannot see its
// input end.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
