//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A terminal is the controlling terminal of holdfast. One process group at a time may read from it and gets the signals
// of its keys: the foreground group. The methods of a nil terminal do nothing.
type terminal struct {
	fd     int
	alone  bool // the command reads from it and writes to it, and is not part of a pipe
	handed bool // the command's group is the foreground group
}

// openTerminal opens the controlling terminal. It returns nil if there is none.
func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd: fd}
}

// openTerminalFor opens the controlling terminal for a command. A command that both reads from the terminal and writes
// to it starts in the foreground. Any other command may be part of a pipe of which another part, such as a pager, needs
// the terminal: it is put in the foreground when it needs that (see child.onStop). A command in holdfast's group shares
// the terminal.
func openTerminalFor(j *job) *terminal {
	t := openTerminal()
	if t != nil && !j.foreground {
		_, reads := foregroundOf(int(j.files[0].Fd()))
		_, writes := foregroundOf(int(j.files[1].Fd()))
		t.alone = reads == nil && writes == nil
	}
	return t
}

func (t *terminal) close() {
	if t != nil {
		unix.Close(t.fd) //nolint:errcheck // nothing was written
	}
}

// foregroundOf returns the foreground group of a terminal, if that is the controlling terminal.
func foregroundOf(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCGPGRP) }

// isOurs reports whether holdfast's group is the foreground group.
func (t *terminal) isOurs() bool {
	if t == nil {
		return false
	}
	group, err := foregroundOf(t.fd)
	return err == nil && group == unix.Getpgrp()
}

// handOverAtStart has the command start in the foreground, if holdfast is there and the command has the terminal alone.
func (t *terminal) handOverAtStart(a *syscall.SysProcAttr) {
	if t.isOurs() && t.alone {
		a.Foreground, a.Ctty = true, t.fd
		t.handed = true
	}
}

// handOver puts the command's group in the foreground, if holdfast's is there. It reports whether it did.
func (t *terminal) handOver(group int) bool {
	if !t.isOurs() {
		return false
	}
	t.handed = t.setForeground(group)
	return t.handed
}

// takeBack puts holdfast's group in the foreground, if it handed the terminal over. It reports whether it did.
func (t *terminal) takeBack() bool {
	if t == nil || !t.handed {
		return false
	}
	t.setForeground(unix.Getpgrp())
	t.handed = false
	return true
}

func (t *terminal) setForeground(group int) bool {
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) == nil
}

// hasShell reports whether a shell may continue holdfast when it is stopped: whether holdfast, or an ancestor in its
// group, has a parent in another group of the same session. The kernel calls a group without one orphaned, and does not
// let a terminal stop it.
func hasShell() bool {
	session, err := unix.Getsid(0)
	if err != nil || session == unix.Getpgrp() {
		return false
	}
	for pid := os.Getpid(); ; {
		if pid = parentOf(pid); pid == 0 {
			return !knowsParents
		}
		if group, err := unix.Getpgid(pid); err != nil || group != unix.Getpgrp() {
			of, err := unix.Getsid(pid)
			return err == nil && of == session
		}
	}
}

// isTerminal reports whether f is a terminal.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// interruptGroup does what Ctrl-C would have done if the command had not had the terminal for itself: it interrupts all
// processes that were started together with holdfast, such as the script that runs it.
func interruptGroup() { interrupt(0) }

// dieOfInterrupt dies of SIGINT, if that came from the terminal. A shell treats this differently from an exit with 130:
// it ends the loop or script that holdfast is part of.
func dieOfInterrupt() {
	t := openTerminal()
	defer t.close()
	if t.isOurs() {
		interrupt(os.Getpid())
	}
}

func interrupt(pid int) {
	signal.Reset(syscall.SIGINT)
	syscall.Kill(pid, syscall.SIGINT) //nolint:errcheck // if it fails, there is still the exit code
	time.Sleep(time.Second)           // the signal arrives meanwhile
}
