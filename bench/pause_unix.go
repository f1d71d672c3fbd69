//go:build unix

package main

import (
	"os"
	"syscall"
)

func suspendProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
