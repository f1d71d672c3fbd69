package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// A process is one run of a program.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// startProcess starts cmd, and has the kernel end it when this process dies.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.SysProcAttr = attributes()
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

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// terminate asks it to end, and kills it if it has not after patience.
func (p *process) terminate(patience time.Duration) error {
	_ = resume(p.cmd.Process) // a paused one would not listen
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(err, p.kill())
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("it did not end within %v and was killed", patience), p.kill())
	}
}

func (p *process) kill() error {
	if p.ended() {
		return nil // its id may be another's by now
	}
	if err := killAll(p.cmd.Process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}
