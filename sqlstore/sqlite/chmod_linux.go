package sqlite

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// chmod changes the mode of a socket or a folder, and of nothing else: who shares a folder can put a link to another's
// file in its place at any moment. Kernels before 6.6 cannot be told not to follow links, but for a descriptor.
func chmod(path string, mode uint32) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if kind := stat.Mode & unix.S_IFMT; kind != unix.S_IFSOCK && kind != unix.S_IFDIR {
		return unix.EINVAL
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
}
