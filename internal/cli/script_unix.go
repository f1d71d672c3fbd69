//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"strings"
	"syscall"
)

// shell runs scripts that have no #! line.
const shell = "/bin/sh"

// forkExec starts a program. It runs a script without #! by the shell, as shells do.
func forkExec(path string, argv []string, attributes *syscall.ProcAttr) (pid int, err error) {
	pid, err = syscall.ForkExec(path, argv, attributes)
	if errors.Is(err, syscall.ENOEXEC) && isText(path) {
		if !strings.Contains(path, "/") {
			path = "./" + path // the shell might parse it as a flag
		}
		return syscall.ForkExec(shell, append([]string{"sh", path}, argv[1:]...), attributes)
	}
	return pid, err
}

// isText reports whether a file may be a script: whether its first line has no zero byte. Programs for other machines
// have one.
func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // nothing was written
	const most = 1024
	line, _ := bufio.NewReaderSize(f, most).ReadSlice('\n') // of a longer line the beginning is enough
	return !bytes.ContainsRune(line, 0)
}
