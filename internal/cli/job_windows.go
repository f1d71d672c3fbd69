package cli

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// endingSignals end the wait for a lock. While a command runs, the console itself sends them to it.
var endingSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// execute runs the command to its end. If watch.why is set then, the lock was lost meanwhile. It returns an error only
// if the command did not start. Windows has no signal like SIGTERM, so the command is killed as soon as it must end.
func (j *job) execute() (code int, err error) {
	if !j.watch.mayRun() {
		j.reportLost()
		return 0, nil
	}
	p, err := os.StartProcess(j.path, j.command, &os.ProcAttr{Env: j.env, Files: j.files[:]})
	if err != nil {
		return 0, err
	}
	ended := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := p.Wait() // the state is all that matters
		ended <- state
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for killed := false; ; {
		select {
		case state := <-ended:
			if !j.watch.mayRun() && !killed { // it ended too late
				j.reportLost()
			}
			return state.ExitCode(), nil
		case <-j.signals: // the console has sent it to the command too
		case <-j.watch.lost():
		case <-timer.C:
		}
		if !j.watch.mayRun() && !killed {
			killed = true
			j.reportLost()
			if err := p.Kill(); err != nil {
				j.app.logf("cannot end the command: %v", err)
			}
		}
		timer.Reset(j.watch.next())
	}
}

// isTerminal reports whether f is a console.
func isTerminal(f *os.File) bool {
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) == nil
}

// dieOfInterrupt does nothing: Windows has no death by a signal.
func dieOfInterrupt() {}
