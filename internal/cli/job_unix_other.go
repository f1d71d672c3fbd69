//go:build unix && !linux

package cli

import (
	"os"
	"syscall"
)

// waitOptions select what Wait4 reports besides the end of a child.
const waitOptions = syscall.WUNTRACED

// The functions below do nothing: only on Linux can the command be killed when holdfast dies, and can the processes be
// found that the command has started.

func killWithParent(*syscall.SysProcAttr) {}

func adoptOrphans() {}

func tree(map[int]bool) map[int]int { return nil }

func children() map[int]bool { return nil }

func signalTree(int, map[int]bool, syscall.Signal) error { return nil }

// knowsParents means that parentOf returns the parent of any process.
const knowsParents = false

// parentOf returns the parent of holdfast, and 0 for any other process.
func parentOf(pid int) int {
	if pid == os.Getpid() {
		return os.Getppid()
	}
	return 0
}
