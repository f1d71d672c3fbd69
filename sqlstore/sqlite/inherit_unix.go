//go:build unix

package sqlite

import "golang.org/x/sys/unix"

// lowestInherited is the lowest number of an inherited descriptor. Scripts use the numbers below.
const lowestInherited = 10

// inherit opens the socket once more, so that a process that is started before end is called has it open too. The
// notifier of a client without claims has no socket, and nothing to inherit.
func (b *notifier) inherit() (end func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.socket == nil {
		return func() {}, nil
	}
	raw, err := b.socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failed error
	err = raw.Control(func(socket uintptr) { fd, failed = unix.FcntlInt(socket, unix.F_DUPFD, lowestInherited) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = unix.Close(fd) }, nil
}
