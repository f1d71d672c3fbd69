package sqlite

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// chmod changes the mode of a socket or a folder, and of nothing else: another user of a shared folder can replace it
// with a link to another file at any moment. Before Linux 6.6 only a descriptor keeps the kernel from following links.
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
