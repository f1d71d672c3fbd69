package main

import (
	"os/exec"
	"runtime"
)

// A process is a child of ours: a server, or a worker. The kernel ends it when we die, where it can.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.SysProcAttr = attachedAttributes()
	started := make(chan error)
	go func() {
		// To the kernel, the parent is the thread that made the child. It must not end before the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // cmd.ProcessState says how it ended
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends it, and returns when it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // if it has ended already, so much the better
	<-p.done
}
