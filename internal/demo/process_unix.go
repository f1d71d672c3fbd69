//go:build unix

package demo

import (
	"os"
	"syscall"
)

// canPause says whether this system can stop a process and let it go on.
const canPause = true

func pause(p *os.Process) error  { return p.Signal(syscall.SIGSTOP) }
func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
