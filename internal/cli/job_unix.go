//go:build unix

package cli

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// endingSignals end the wait for a lock. While a command runs, they are forwarded to it.
var endingSignals = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

// runningSignals are the others that matter while a command runs. SIGTSTP is forwarded as well: if holdfast stopped
// alone, the command would continue while its lease is not renewed.
var runningSignals = []os.Signal{syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGWINCH}

// A child is the running command: the process group that it leads. One goroutine does everything with it, so that no
// signal is sent to a group that was just reaped.
type child struct {
	job         *job
	group       int // its process group unless it is in holdfast's, and the pid of its leader
	tty         *terminal
	terminating bool      // SIGTERM was sent because the lock is lost
	stopped     bool      // it is stopped, as far as Wait4 has reported
	ended       bool      // it was reaped
	killAt      time.Time // when it is killed because holdfast got SIGTERM; zero if it did not

	others  map[int]bool // children of holdfast that are not the command's, as of the script that became holdfast
	refused bool         // it was reported that the command cannot be sent signals

	messages chan func() // each writes a message, in this order
	written  chan struct{}
}

// newChild returns a child whose messages are written by a goroutine of their own. A reader may be slow, or may have
// stopped the terminal, and the command must still be ended in time.
func newChild(j *job, tty *terminal) *child {
	c := &child{job: j, tty: tty, messages: make(chan func(), maxMessages), written: make(chan struct{})}
	go func() {
		defer close(c.written)
		for write := range c.messages {
			write()
		}
	}()
	return c
}

// maxMessages is the number of messages that there can be: that the lock is lost, and that a signal cannot be sent.
const maxMessages = 2

// flushWithin bounds how long holdfast waits until its messages are written after the command has ended.
const flushWithin = time.Second

// execute runs the command to its end. If watch.why is set then, the lock was lost meanwhile. It returns an error only
// if the command did not start.
func (j *job) execute() (code int, err error) {
	// On Linux the command dies with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tty := openTerminalFor(j)
	defer tty.close()
	if j.foreground {
		adoptOrphans()
	}
	notifyUnlessIgnored(j.signals, runningSignals)
	attributes := &syscall.SysProcAttr{Setpgid: !j.foreground}
	tty.handOverAtStart(attributes)
	killWithParent(attributes)
	if !j.watch.mayRun() {
		j.reportLost()
		return 0, nil
	}
	c := newChild(j, tty)
	defer c.flushMessages()
	if j.foreground {
		c.others = children()
	}
	if err := c.start(attributes); err != nil {
		tty.takeBack()
		return 0, err
	}
	status := c.supervise()
	if j.watch.why != nil || !c.killAt.IsZero() {
		c.endRest()
	}
	hadTerminal := tty.takeBack()
	if status.Signaled() {
		if status.Signal() == syscall.SIGINT && j.watch.why == nil {
			j.app.last = dieOfInterrupt
			if hadTerminal {
				j.app.last = interruptGroup // no other process got the signal of that key
			}
		}
		return exitSignaled + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// start starts the command. From then on holdfast ignores SIGTTOU and SIGPIPE, so that it can write messages to a
// terminal that the command has (SIGTTOU would stop it) and to a pipe without a reader (SIGPIPE would end it). The
// command does not inherit this.
func (c *child) start(attributes *syscall.SysProcAttr) error {
	defer signal.Ignore(syscall.SIGTTOU, syscall.SIGPIPE)
	j := c.job
	end, err := j.session.inherit()
	if err != nil {
		return err
	}
	defer end()
	c.group, err = forkExec(j.path, j.command, &syscall.ProcAttr{
		Env:   j.env,
		Files: []uintptr{j.files[0].Fd(), j.files[1].Fd(), j.files[2].Fd()},
		Sys:   attributes,
	})
	return err
}

// supervise handles signals, the lease and timers until the command has ended.
func (c *child) supervise() syscall.WaitStatus {
	timer := time.NewTimer(c.job.watch.next())
	defer timer.Stop()
	for {
		var got os.Signal
		select {
		case got = <-c.job.signals:
		case <-c.job.watch.lost():
		case <-timer.C:
		}
		// The lease first, in every case: holdfast may have been stopped for long.
		c.enforce()
		c.handle(got)
		if status, ended := c.reap(); ended {
			c.enforce() // it may have ended too late, or have left processes behind
			return status
		}
		next := c.job.watch.next()
		if !c.killAt.IsZero() {
			next = min(next, max(time.Until(c.killAt), time.Millisecond))
		}
		timer.Reset(next)
	}
}

// enforce ends the command if it must not run any longer.
func (c *child) enforce() {
	lost := !c.job.watch.mayRun()
	if lost && !c.terminating {
		c.terminating = true
		c.signal(syscall.SIGTERM)
		c.messages <- c.job.reportLost
	}
	// A stopped command would receive SIGTERM only when it runs again, and it must not.
	if lost && c.stopped || c.overdue() {
		c.signal(syscall.SIGKILL)
	}
}

// flushMessages waits until all messages are written, for at most flushWithin.
func (c *child) flushMessages() {
	close(c.messages)
	select {
	case <-c.written:
	case <-time.After(flushWithin):
	}
}

// overdue reports whether the command got SIGTERM and its time to end is over.
func (c *child) overdue() bool {
	return c.job.watch.mustDie() || !c.killAt.IsZero() && passed(c.killAt)
}

// handle handles a signal. enforce was called just before.
func (c *child) handle(sig os.Signal) {
	switch sig {
	case nil, syscall.SIGCHLD:
	case syscall.SIGCONT:
		c.resume()
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGWINCH:
		// These usually come from the terminal, which sends them to all of its foreground group.
		if !c.job.foreground && (sig != syscall.SIGTSTP || !c.terminating) {
			c.signal(sig.(syscall.Signal))
		}
	default:
		c.signal(sig.(syscall.Signal))
		if within := c.job.killAfter; sig == syscall.SIGTERM && within != nil && c.killAt.IsZero() {
			c.killAt = time.Now().Add(*within)
		}
	}
}

// reap reads the state of the command, and reports whether it has ended. It also reaps orphans that holdfast has
// inherited, as the first process of a container does.
func (c *child) reap() (syscall.WaitStatus, bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|waitOptions, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // another Wait has reaped it
			return syscall.WaitStatus(exitNoExec << 8), true
		case pid == 0:
			return 0, false
		case pid != c.group:
			if status.Exited() || status.Signaled() {
				delete(c.others, pid) // from now on the pid may be reused
			}
		case status.Stopped():
			c.stopped = true
			c.enforce()
			c.onStop(status.StopSignal())
		case status.Continued():
			c.stopped = false
		default:
			c.ended = true
			return status, true
		}
	}
}

// onStop handles that the command was stopped by sig. The kernel stops a command in the background that reads from the
// terminal or configures it. If holdfast is in the foreground, the command gets the terminal and continues. Any other
// stop is a stop of the whole job.
func (c *child) onStop(sig syscall.Signal) {
	wantsTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	if wantsTerminal && !c.terminating && c.giveTerminal() {
		c.proceed()
		return
	}
	c.suspend(wantsTerminal)
}

// giveTerminal puts the command in the foreground of the terminal, if holdfast is there. It reports whether it did.
func (c *child) giveTerminal() bool {
	if c.job.foreground {
		return c.tty.isOurs()
	}
	return c.tty.handOver(c.group)
}

// suspend stops holdfast and all of its own group, as the key that stopped the command would have. Then a shell sees a
// stopped job. If the command wants the terminal, they stop by SIGTTIN, as if they wanted it themselves: the parent of
// holdfast may be another holdfast, which then hands the terminal over. Without a terminal there is no shell to
// continue the job: holdfast keeps running, and renews the lease. A command that wants a terminal there would be
// stopped for ever: it gets SIGHUP.
func (c *child) suspend(wantsTerminal bool) {
	if c.tty == nil || c.terminating {
		return
	}
	c.tty.takeBack()
	switch {
	case !hasShell() && wantsTerminal:
		c.signal(syscall.SIGHUP) // as the kernel ends a stopped group that is orphaned
		c.proceed()
	case !hasShell():
		c.resume()
	case wantsTerminal:
		syscall.Kill(0, syscall.SIGTTIN) //nolint:errcheck // there is always such a group
	default:
		// Holdfast itself has a handler for SIGTSTP, which Go never removes. So it stops itself with SIGSTOP.
		signal.Ignore(syscall.SIGTSTP)
		syscall.Kill(0, syscall.SIGTSTP)           //nolint:errcheck // there is always such a group
		syscall.Kill(os.Getpid(), syscall.SIGSTOP) //nolint:errcheck // it cannot fail
		signal.Notify(c.job.signals, syscall.SIGTSTP)
	}
}

// resume continues the command after holdfast was continued. enforce was called just before.
func (c *child) resume() {
	if c.terminating {
		return // it is being killed, and must not run
	}
	if c.tty != nil && c.tty.alone {
		c.tty.handOver(c.group)
	}
	c.proceed()
}

// proceed lets a stopped command run again.
func (c *child) proceed() {
	c.stopped = false
	c.signal(syscall.SIGCONT)
}

// signal sends a signal to the whole group, or to the command and all its descendants if they are in holdfast's group.
// If that is not permitted, as with a command that runs as another user, it reports so once.
func (c *child) signal(s syscall.Signal) {
	var err error
	switch {
	case !c.job.foreground:
		err = syscall.Kill(-c.group, s)
	case c.ended:
		err = signalTree(c.group, c.others, s)
	default:
		err = errors.Join(syscall.Kill(c.group, s), signalTree(c.group, c.others, s))
	}
	if err != nil && !errors.Is(err, syscall.ESRCH) && !c.refused {
		c.refused = true
		c.messages <- func() { c.job.app.logf("cannot send the command a signal (%v): %v", s, err) }
	}
}

// endRest waits for the processes that are left of the command when its leader has ended, and kills them when their
// time is over. The id of a group is not reused while one of its processes is left.
func (c *child) endRest() {
	for c.isLeft() && !c.overdue() {
		c.enforce()
		c.reap() // a zombie still counts as one of the group
		time.Sleep(10 * time.Millisecond)
	}
	if !c.job.foreground {
		syscall.Kill(-c.group, syscall.SIGKILL) //nolint:errcheck // mostly no process is left
		return
	}
	for tries := 0; c.isLeft() && tries < 100; tries++ { // processes may have been started meanwhile
		c.signal(syscall.SIGKILL)
		c.reap()
		time.Sleep(10 * time.Millisecond)
	}
}

// isLeft reports whether a process of the command is left.
func (c *child) isLeft() bool {
	if c.job.foreground {
		return len(tree(c.others)) > 0
	}
	return syscall.Kill(-c.group, 0) == nil
}
