package demo

import (
	"os"
	"syscall"
)

// canPause says whether this system can stop a process and let it go on.
const canPause = false

// childAttributes keep Ctrl-C from the worker: it reaches the coordinator alone, who ends it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func pause(*os.Process) error  { return nil }
func resume(*os.Process) error { return nil }
