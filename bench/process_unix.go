//go:build unix && !linux

package main

import "syscall"

// attachedAttributes keep the terminal's Ctrl-C from a child: we end it ourselves.
func attachedAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
