//go:build unix && !linux

package cli

import "syscall"

// waitOptions are what is to be told of a child beside its end.
const waitOptions = syscall.WUNTRACED

// dieWithUs would have the command killed when holdfast dies. This system cannot.
func dieWithUs(*syscall.SysProcAttr) {}
