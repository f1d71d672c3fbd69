package cli

import "syscall"

// waitOptions are what is to be told of a child beside its end.
const waitOptions = syscall.WUNTRACED | syscall.WCONTINUED

// dieWithUs has the command killed when holdfast dies, however that comes about.
func dieWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
