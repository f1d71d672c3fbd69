//go:build unix && !linux

package cli

import (
	"os"
	"syscall"
)

// adoptOrphans would make holdfast the parent of orphans. This system cannot.
func adoptOrphans() {}

// tree would find what the command has started. This system cannot.
func tree(map[int]bool) map[int]int { return nil }

// children would find the children of holdfast, for tree.
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
