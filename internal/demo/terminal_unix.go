//go:build unix

package demo

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// TerminalWidth is how many columns the terminal has that out is, or 0 if out is none.
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
