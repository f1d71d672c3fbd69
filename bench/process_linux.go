package main

import "syscall"

// attachedAttributes make a child end with us, and keep the terminal's Ctrl-C from it: we end it ourselves.
func attachedAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
