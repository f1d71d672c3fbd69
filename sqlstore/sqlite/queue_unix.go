//go:build unix

package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFolder asks for the lock on a folder. The channel says when it has it. It is nil if that cannot be asked for.
func lockFolder(folder string) (unlock func(), locked <-chan error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, nil
	}
	done := make(chan error, 1)
	go func() {
		err := error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
		}
		done <- err
	}()
	return func() { _ = dir.Close() }, done // which gives the lock back
}
