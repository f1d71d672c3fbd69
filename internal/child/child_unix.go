//go:build unix

package child

import (
	"errors"
	"os"
	"syscall"
)

// CanPause reports whether this system can stop a process and let it go on.
const CanPause = true

// Pause stops a process, wherever it is, until Resume.
func Pause(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func Resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// killGroup kills the process and what it has started: a child that outlives it would go on writing data.
func killGroup(p *os.Process) error {
	if err := syscall.Kill(-p.Pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return p.Kill() // it leads no group
}
