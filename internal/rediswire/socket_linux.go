package rediswire

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A socket is a connection that reads and writes without telling the Go scheduler. A process that has nothing to do but
// to wait for a server puts the scheduler's monitor to sleep. The first system call after each wait wakes it, and the
// monitor then runs beside the call, in case that it blocks: this was a third of the processor time that a lock took.
// Calls of a socket that does not block need no monitor.
//
// The monitor also preempts goroutines that keep a processor for long, and runs timers while all processors are busy.
// In a process that makes no other system call after its wait, that begins later: with the timer that was next when the
// monitor fell asleep. While callers read by themselves, that is a tick. The goroutine that reads for all wakes the
// monitor, since its own timer may be a second away.
type socket struct {
	net.Conn
	raw     syscall.RawConn
	in, out transfer
}

// longestTransfer is up to how many bytes are copied without the scheduler: it can do nothing else with the processor
// meanwhile.
const longestTransfer = 16 << 10

// newSocket returns conn with such reads and writes. If conn is not a bare connection, or blocks, it returns conn
// itself: a type that embeds one may read and write in its own way.
func newSocket(conn net.Conn) net.Conn {
	var raw syscall.RawConn
	var err error
	switch conn := conn.(type) {
	case *net.TCPConn:
		raw, err = conn.SyscallConn()
	case *net.UnixConn:
		raw, err = conn.SyscallConn()
	default:
		return conn
	}
	flags := 0
	if err != nil || raw.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) }) != nil ||
		err != nil || flags&unix.O_NONBLOCK == 0 {
		return conn
	}
	s := &socket{Conn: conn, raw: raw}
	s.in.step, s.out.step = s.in.read, s.out.write
	return s
}

// wakeMonitor wakes the scheduler's monitor, by a system call that the scheduler knows of.
func wakeMonitor() { syscall.Syscall(syscall.SYS_GETPID, 0, 0, 0) } //nolint:errcheck // it has no error

// Read implements net.Conn.
func (s *socket) Read(b []byte) (n int, err error) {
	if len(b) == 0 || !s.in.busy.TryLock() {
		return s.Conn.Read(b)
	}
	n, err = s.in.run(s.raw.Read, b[:min(len(b), longestTransfer)])
	s.in.busy.Unlock()
	switch {
	case err != nil:
		return n, s.failure("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements net.Conn.
func (s *socket) Write(b []byte) (n int, err error) {
	if len(b) == 0 || len(b) > longestTransfer || !s.out.busy.TryLock() {
		return s.Conn.Write(b)
	}
	n, err = s.out.run(s.raw.Write, b)
	s.out.busy.Unlock()
	if err != nil {
		return n, s.failure("write", err)
	}
	return n, nil
}

// failure returns the error that net returns for a failed read or write.
func (s *socket) failure(op string, err error) error {
	var of *net.OpError // of the raw connection: a deadline that has passed, or a connection that is closed
	var errno syscall.Errno
	switch {
	case errors.As(err, &of):
		err = of.Err
	case errors.As(err, &errno):
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{
		Op: op, Net: s.LocalAddr().Network(), Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err,
	}
}

// A transfer is the read or the write that is under way.
type transfer struct {
	busy   sync.Mutex
	step   func(fd uintptr) (complete bool) // made once: what it needs is below, so that a call allocates nothing
	bytes  []byte
	done   int // how many of them were read or written
	failed syscall.Errno
}

// run reads into b or writes it, by a method of the raw connection, which calls step until that returns true. It
// returns how many bytes were transferred.
func (t *transfer) run(by func(step func(fd uintptr) bool) error, b []byte) (n int, err error) {
	t.bytes, t.done, t.failed = b, 0, 0
	err = by(t.step)
	if t.bytes = nil; err == nil && t.failed != 0 {
		err = t.failed
	}
	return t.done, err
}

// read reads what has arrived, and returns false if that is nothing.
func (t *transfer) read(fd uintptr) bool {
	n, failed := t.call(syscall.SYS_READ, fd)
	t.done, t.failed = n, failed
	return failed != syscall.EAGAIN
}

// write writes what the buffers of the connection have room for, and returns false if something is left.
func (t *transfer) write(fd uintptr) bool {
	for t.done < len(t.bytes) {
		n, failed := t.call(syscall.SYS_WRITE, fd)
		if n == 0 && failed == 0 {
			failed = syscall.EIO // it would go on for ever
		}
		t.done += n
		if t.failed = failed; failed != 0 {
			return failed != syscall.EAGAIN
		}
	}
	return true
}

// call makes a system call for the bytes that are left, again if a signal has interrupted it.
func (t *transfer) call(trap, fd uintptr) (n int, failed syscall.Errno) {
	for {
		if n, failed = systemCall(trap, fd, t.bytes[t.done:]); failed != syscall.EINTR {
			return n, failed
		}
	}
}
