//go:build unix && !linux

package cli

import "syscall"

// adoptOrphans would make holdfast the parent of orphans. This system cannot.
func adoptOrphans() {}

// tree would find what the command has started. This system cannot.
func tree() map[int]int { return nil }

func signalTree(int, syscall.Signal) error { return nil }
