// Package child starts processes that end with the one that started them.
package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// A Process is one run of a program.
type Process struct {
	Cmd  *exec.Cmd
	Done chan struct{} // closed when it has ended; then Cmd.ProcessState is set
}

// Start starts cmd with [Attributes], unless it has attributes already.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{Cmd: cmd, Done: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = Attributes()
	}
	started := make(chan error)
	go func() {
		// To the kernel, the parent is the thread that made the child. It must not end before the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // cmd.ProcessState has the result
			close(p.Done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// Terminate sends the process a signal such as SIGTERM, and kills it if it has not ended after patience.
func (p *Process) Terminate(signal os.Signal, patience time.Duration) error {
	_ = Resume(p.Cmd.Process) // a paused process would not handle the signal
	if err := p.Cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(err, p.Kill())
	}
	select {
	case <-p.Done:
		return nil
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("it did not end within %v and was killed", patience), p.Kill())
	}
}

// Kill ends the process and those of its group, and returns when it has ended.
func (p *Process) Kill() error {
	if p.Ended() {
		return nil // another process may have its id by now
	}
	if err := killGroup(p.Cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.Done
	return nil
}
