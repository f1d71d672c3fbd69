//go:build unix && !linux

package cli

import (
	"os"
	"syscall"
)

// waitOptions are what is to be told of a child beside its end.
const waitOptions = syscall.WUNTRACED

// What only Linux can: having the command killed when holdfast dies, and finding what the command has started.

func dieWithUs(*syscall.SysProcAttr) {}

func adoptOrphans() {}

func tree(map[int]bool) map[int]int { return nil }

func children() map[int]bool { return nil }

func signalTree(int, map[int]bool, syscall.Signal) error { return nil }

// knowsParents says that parentOf finds the parent of any process.
const knowsParents = false

// parentOf is the parent of holdfast, and of others not known.
func parentOf(pid int) int {
	if pid == os.Getpid() {
		return os.Getppid()
	}
	return 0
}
