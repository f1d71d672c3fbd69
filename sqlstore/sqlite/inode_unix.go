//go:build unix

package sqlite

import (
	"io/fs"
	"strconv"
	"syscall"
)

// inode is the number of a file on its disk. No other file has it while this one is open.
func inode(info fs.FileInfo) string {
	return strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 36)
}
