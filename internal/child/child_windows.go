package child

import (
	"errors"
	"os"
	"syscall"
)

const (
	// EndsWithParent reports whether the kernel kills a child when its parent dies.
	EndsWithParent = false

	// CanPause reports whether this system can stop a process and let it go on.
	CanPause = false
)

// Attributes keep Ctrl-C from a child: it reaches its parent alone, which ends it.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// Pause fails.
func Pause(*os.Process) error { return errors.ErrUnsupported }

// Resume fails.
func Resume(*os.Process) error { return errors.ErrUnsupported }

func killGroup(p *os.Process) error { return p.Kill() }
