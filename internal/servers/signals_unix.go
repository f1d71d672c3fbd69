//go:build unix

package servers

import (
	"errors"
	"os"
	"syscall"
)

// killAll kills the process and what it has started: a child that outlives it would go on writing data.
func killAll(p *os.Process) error {
	if err := syscall.Kill(-p.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return p.Kill() // it leads no group
}

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
