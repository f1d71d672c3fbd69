//go:build unix

package demo

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// TerminalWidth returns the number of columns of the terminal out, or 0 if out is not a terminal.
func TerminalWidth(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
