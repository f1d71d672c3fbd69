//go:build unix

package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// flockLocker is flock(2): the kernel's own lock between the processes of a machine. It has no ttl.
type flockLocker struct{ folder string }

func openFlock(_ context.Context, where string, _ time.Duration) (locker, error) {
	return flockLocker{filepath.Dir(where)}, nil
}

// Acquire waits in the kernel, and so for longer than ctx if it must. Whoever is in the way is about to give back, or
// its process ends, and that gives back too.
func (l flockLocker) Acquire(_ context.Context, name string) (lease, error) {
	f, err := os.OpenFile(filepath.Join(l.folder, url.PathEscape(name)+".flock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return leaseFunc(f.Close), nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
	}
}

func (flockLocker) Close() error { return nil }

// cpuTime is how much processor time this process has used.
func cpuTime() (time.Duration, error) {
	var u unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
