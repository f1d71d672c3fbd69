//go:build unix && !linux

package demo

import "syscall"

// childAttributes put a worker into a process group of its own, so that Ctrl-C reaches the coordinator alone, who ends
// it. Should the coordinator be killed, the worker sees its input end; the kernel hangs up on one that is stopped.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
