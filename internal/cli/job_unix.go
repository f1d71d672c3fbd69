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

// endingSignals end the wait for a lock. While a command runs they are passed on to it.
var endingSignals = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM,
}

// runningSignals are the others that matter while a command runs. SIGTSTP is passed on as well: holdfast must not
// stop alone, since the command would then run on without anyone looking after its lease.
var runningSignals = []os.Signal{syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGWINCH}

// A child is the command while it runs: the process group that it leads. All of it is done by one goroutine, so that no
// signal is sent to a group that was just reaped.
type child struct {
	job     *job
	group   int // its process group unless it is in holdfast's, and the pid of its leader
	tty     *terminal
	told    bool      // it was told to end because the lock is lost
	stopped bool      // it is stopped, as far as we know
	ended   bool      // it was reaped
	killAt  time.Time // when it is killed because holdfast was told to end; zero if it was not

	others  map[int]bool // children of holdfast that are none of the command's, as of the script that became holdfast
	refused bool         // it was said that the command cannot be sent signals

	messages chan func() // to be written in this order
	written  chan struct{}
}

// newChild makes a child, whose messages are written without waiting for that: a reader may be slow, or have stopped
// the terminal, and the command must be ended in time all the same.
func newChild(j *job, tty *terminal) *child {
	c := &child{job: j, tty: tty, messages: make(chan func(), mostMessages), written: make(chan struct{})}
	go func() {
		defer close(c.written)
		for write := range c.messages {
			write()
		}
	}()
	return c
}

// mostMessages is how many messages there can be: that the lock is lost, and that a signal cannot be sent.
const mostMessages = 2

// sayWithin bounds how long holdfast waits for a reader of its messages when the command has ended.
const sayWithin = time.Second

// execute runs the command to its end. If watch.why is set then, the lock was lost meanwhile. An error says that the command
// did not start.
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
	dieWithUs(attributes)
	if !j.watch.mayRun() {
		j.sayLost()
		return 0, nil
	}
	c := newChild(j, tty)
	defer c.finishSaying()
	if j.foreground {
		c.others = children()
	}
	if err := c.start(attributes); err != nil {
		tty.takeBack()
		return 0, err
	}
	status := c.untilItEnds()
	if j.watch.why != nil || !c.killAt.IsZero() {
		c.endRest()
	}
	hadTerminal := tty.takeBack()
	if status.Signaled() {
		if status.Signal() == syscall.SIGINT && j.watch.why == nil {
			j.app.last = dieOfInterrupt
			if hadTerminal {
				j.app.last = interruptGroup // nobody else saw that key
			}
		}
		return exitSignaled + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// start starts the command. From then on holdfast writes its messages whatever comes of it: to a terminal that the
// command has (SIGTTOU would stop it), or to a pipe that nobody reads (SIGPIPE would end it). The command does not
// inherit this.
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

// untilItEnds looks after the command until it ended.
func (c *child) untilItEnds() syscall.WaitStatus {
	timer := time.NewTimer(c.job.watch.next())
	defer timer.Stop()
	for {
		var got os.Signal
		select {
		case got = <-c.job.signals:
		case <-c.job.watch.lost():
		case <-timer.C:
		}
		// The lease first, whatever woke us: we may have been stopped for long.
		c.enforce()
		c.handle(got)
		if status, ended := c.look(); ended {
			c.enforce() // it may have ended too late, or have left others behind
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
	if lost && !c.told {
		c.told = true
		c.signal(syscall.SIGTERM)
		c.messages <- c.job.sayLost
	}
	// A stopped command hears of SIGTERM only when it runs again, and it must not.
	if lost && c.stopped || c.overdue() {
		c.signal(syscall.SIGKILL)
	}
}

// finishSaying waits until all messages are written, but not for long.
func (c *child) finishSaying() {
	close(c.messages)
	select {
	case <-c.written:
	case <-time.After(sayWithin):
	}
}

// overdue reports whether the command was told to end and has had its time for that.
func (c *child) overdue() bool {
	return c.job.watch.mustDie() || !c.killAt.IsZero() && passed(c.killAt)
}

// handle does what a signal asks for. enforce was called just before.
func (c *child) handle(sig os.Signal) {
	switch sig {
	case nil, syscall.SIGCHLD:
	case syscall.SIGCONT:
		c.resume()
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGWINCH:
		// These come from the terminal, as a rule, which sends them to all of its foreground group.
		if !c.job.foreground && (sig != syscall.SIGTSTP || !c.told) {
			c.signal(sig.(syscall.Signal))
		}
	default:
		c.signal(sig.(syscall.Signal))
		if within := c.job.killAfter; sig == syscall.SIGTERM && within != nil && c.killAt.IsZero() {
			c.killAt = time.Now().Add(*within)
		}
	}
}

// look asks what became of the command. It also reaps processes that others have left to holdfast, as the first process
// of a container gets them.
func (c *child) look() (syscall.WaitStatus, bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|waitOptions, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // somebody else took its last word
			return syscall.WaitStatus(exitNoExec << 8), true
		case pid == 0:
			return 0, false
		case pid != c.group:
			if status.Exited() || status.Signaled() {
				delete(c.others, pid) // from now on the number may be another's
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

// onStop decides what follows when the command was stopped by sig. A command in the background that reads from the
// terminal or sets it up is stopped by the kernel. If holdfast is in the foreground, the command gets the terminal and
// goes on. Any other stop is a stop of the whole job.
func (c *child) onStop(sig syscall.Signal) {
	wantsTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	if wantsTerminal && !c.told && c.giveTerminal() {
		c.proceed()
		return
	}
	c.suspend(wantsTerminal)
}

// giveTerminal lets the command have the terminal, if holdfast is in the foreground. It reports whether it did.
func (c *child) giveTerminal() bool {
	if c.job.foreground {
		return c.tty.isOurs()
	}
	return c.tty.handOver(c.group)
}

// suspend stops holdfast and all of its own group, as the key that stopped the command would have. Then a shell sees a
// stopped job. If the command wants the terminal, they stop as if they wanted it themselves: whoever started holdfast
// may be another holdfast, which then hands it over. Where there is no terminal there is no shell to continue the job:
// holdfast goes on, and renews the lease. A command that wants a terminal there would be stopped for ever: it is hung
// up.
func (c *child) suspend(wantsTerminal bool) {
	if c.tty == nil || c.told {
		return
	}
	c.tty.takeBack()
	switch {
	case !hasShell() && wantsTerminal:
		c.signal(syscall.SIGHUP) // as the kernel ends a stopped group that nobody can continue
		c.proceed()
	case !hasShell():
		c.resume()
	case wantsTerminal:
		syscall.Kill(0, syscall.SIGTTIN) //nolint:errcheck // there is always such a group
	default:
		// Holdfast itself has a handler for SIGTSTP, which Go never takes away again. SIGSTOP does without.
		signal.Ignore(syscall.SIGTSTP)
		syscall.Kill(0, syscall.SIGTSTP)           //nolint:errcheck // there is always such a group
		syscall.Kill(os.Getpid(), syscall.SIGSTOP) //nolint:errcheck // nor can this fail
		signal.Notify(c.job.signals, syscall.SIGTSTP)
	}
}

// resume continues the command when holdfast was continued. enforce was called just before.
func (c *child) resume() {
	if c.told {
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
// It says once if that is not allowed, as with a command that runs as another user.
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
		c.messages <- func() { c.job.app.say("cannot send the command a signal (%v): %v", s, err) }
	}
}

// endRest waits for what is left of the command when its leader has ended, and kills it when its time is over. The
// number of a group is not given to another while one of its processes is left.
func (c *child) endRest() {
	for c.isLeft() && !c.overdue() {
		c.enforce()
		c.look() // what is dead and not reaped still counts as one of the group
		time.Sleep(10 * time.Millisecond)
	}
	if !c.job.foreground {
		syscall.Kill(-c.group, syscall.SIGKILL) //nolint:errcheck // mostly nobody is left
		return
	}
	for tries := 0; c.isLeft() && tries < 100; tries++ { // new ones may have been started meanwhile
		c.signal(syscall.SIGKILL)
		c.look()
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
