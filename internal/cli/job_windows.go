package cli

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// endingSignals end the wait for a lock. While a command runs, the console itself tells it.
var endingSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// execute runs the command to its end. If watch.why is set then, the lock was lost meanwhile. An error says that the command
// did not start. Windows has no signal that asks a process to end, so the command is killed as soon as it must end.
func (j *job) execute() (code int, err error) {
	if !j.watch.mayRun() {
		j.sayLost()
		return 0, nil
	}
	p, err := os.StartProcess(j.path, j.command, &os.ProcAttr{Env: j.env, Files: j.files[:]})
	if err != nil {
		return 0, err
	}
	ended := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := p.Wait() // nothing but its end is waited for
		ended <- state
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for told := false; ; {
		select {
		case state := <-ended:
			if !j.watch.mayRun() && !told { // it ended too late
				j.sayLost()
			}
			return state.ExitCode(), nil
		case <-j.signals: // the console has told the command too
		case <-j.watch.lost():
		case <-timer.C:
		}
		if !j.watch.mayRun() && !told {
			told = true
			j.sayLost()
			if err := p.Kill(); err != nil {
				j.app.say("cannot end the command: %v", err)
			}
		}
		timer.Reset(j.watch.next())
	}
}

// isTerminal says whether a person may be at the other end.
func isTerminal(f *os.File) bool {
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) == nil
}

// dieOfInterrupt does nothing: there is no death by a signal.
func dieOfInterrupt() {}
