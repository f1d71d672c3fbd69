//go:build unix && !linux

package sqlite

import "golang.org/x/sys/unix"

// chmod changes the mode of a socket or a folder. It does not follow a link that another user has put in its place.
func chmod(path string, mode uint32) error {
	return unix.Fchmodat(unix.AT_FDCWD, path, mode, unix.AT_SYMLINK_NOFOLLOW)
}
