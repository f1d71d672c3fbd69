package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// waitOptions select what Wait4 reports besides the end of a child.
const waitOptions = syscall.WUNTRACED | syscall.WCONTINUED

// killWithParent has the kernel kill the command when holdfast dies, for any reason.
func killWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// adoptOrphans makes holdfast the parent of descendants whose own parent has ended, so that tree finds them.
func adoptOrphans() {
	unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) //nolint:errcheck // every kernel since 3.4 can
}

// children returns the living children of holdfast. Before the command is started, they are those of a program that
// became holdfast by exec, such as a script.
func children() map[int]bool {
	found := map[int]bool{}
	for pid, parent := range parents() {
		if parent == os.Getpid() {
			found[pid] = true
		}
	}
	return found
}

// parents returns the parent of every living process.
func parents() map[int]int {
	parents := map[int]int{}
	all, _ := os.ReadDir("/proc") // without it only the command itself can be ended
	for _, entry := range all {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			if parent := parentOf(pid); parent > 0 {
				parents[pid] = parent
			}
		}
	}
	return parents
}

// tree returns the living descendants of holdfast with the parent of each, except others and their descendants.
func tree(others map[int]bool) map[int]int {
	parents, found := parents(), map[int]int{}
	for grown := true; grown; {
		grown = false
		for pid, parent := range parents {
			_, known := found[pid]
			_, below := found[parent]
			if !known && !others[pid] && (below || parent == os.Getpid()) {
				found[pid] = parent
				grown = true
			}
		}
	}
	return found
}

// knowsParents means that parentOf returns the parent of any process.
const knowsParents = true

// parentOf returns the parent of a process, or 0 if the process has ended.
func parentOf(pid int) (parent int) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	var state string
	rest := stat[bytes.LastIndexByte(stat, ')')+1:] // before it is a name that the process chose
	if _, err := fmt.Sscan(string(rest), &state, &parent); err != nil || state == "Z" || state == "X" {
		return 0
	}
	return parent
}

// signalTree sends a signal to all processes that tree returns, except the command itself.
func signalTree(command int, others map[int]bool, s syscall.Signal) (failed error) {
	for pid, parent := range tree(others) {
		if pid == command {
			continue
		}
		if err := signalChild(pid, parent, s); err != nil && !errors.Is(err, unix.ESRCH) {
			failed = err
		}
	}
	return failed
}

// signalChild sends a signal to a process with this parent. If the pid was reused meanwhile, the new process has
// another parent and gets no signal.
func signalChild(pid, parent int, s syscall.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return err
	case parentOf(pid) != parent:
		err = unix.ESRCH
	case err != nil: // a kernel before 5.3, or a sandbox
		return syscall.Kill(pid, s)
	default:
		err = unix.PidfdSendSignal(fd, s, nil, 0)
	}
	if fd >= 0 {
		unix.Close(fd) //nolint:errcheck // nothing was written
	}
	return err
}
