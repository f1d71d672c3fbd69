package rediswire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// socketPair returns both ends of a connection, the first as a socket.
func socketPair(t *testing.T) (near net.Conn, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	near = newSocket(dialled)
	if _, ok := near.(*socket); !ok {
		t.Fatalf("%T is not a socket", near)
	}
	t.Cleanup(func() {
		near.Close()
		accepted.Close()
	})
	return near, accepted.(*net.TCPConn)
}

// TestSocketTransfers sends more than the buffers hold in both directions, in pieces of several sizes, to a peer that
// echoes: every byte arrives, in order.
func TestSocketTransfers(t *testing.T) {
	near, far := socketPair(t)
	var echoing sync.WaitGroup
	echoing.Go(func() {
		if _, err := io.Copy(far, far); err != nil {
			t.Error(err)
		}
		far.CloseWrite() //nolint:errcheck // the reader notices
	})
	sent := make([]byte, 16<<20)
	for i := range sent {
		sent[i] = byte(i * i >> 5)
	}
	echoing.Go(func() {
		for rest, size := sent, 1; len(rest) > 0; size = size*3%100_000 + 1 {
			n, err := near.Write(rest[:min(size, len(rest))])
			if err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
		near.(*socket).Conn.(*net.TCPConn).CloseWrite() //nolint:errcheck // the echo notices
	})
	got, err := io.ReadAll(near)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes were sent, and %d others received: %v", len(sent), len(got), err)
	}
	echoing.Wait()
}

// TestSocketWaitsForRoom writes to a peer that does not read: Write waits for its deadline and returns how much was
// written.
func TestSocketWaitsForRoom(t *testing.T) {
	near, far := socketPair(t)
	near.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) //nolint:errcheck // Write shows it
	piece, total := make([]byte, longestTransfer-1), 0
	var err error
	for err == nil {
		var n int
		n, err = near.Write(piece)
		total += n
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	near.Close()
	if arrived, err := io.Copy(io.Discard, far); err != nil || arrived != int64(total) {
		t.Errorf("%d bytes arrived of %d: %v", arrived, total, err)
	}
}

// TestSocketErrors compares the errors of a socket with those of net.
func TestSocketErrors(t *testing.T) {
	read := func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err }
	write := func(c net.Conn) error { _, err := c.Write(make([]byte, 1)); return err }
	for name, c := range map[string]struct {
		before func(near net.Conn, far *net.TCPConn)
		do     func(net.Conn) error
		want   error
	}{
		"reset": {
			func(_ net.Conn, far *net.TCPConn) {
				far.SetLinger(0) //nolint:errcheck // the read shows it
				far.Close()
			},
			read,
			syscall.ECONNRESET,
		},
		"closed by the peer": {
			func(_ net.Conn, far *net.TCPConn) { far.Close() },
			read,
			io.EOF,
		},
		"read after Close": {
			func(near net.Conn, _ *net.TCPConn) { near.Close() },
			read,
			net.ErrClosed,
		},
		"write after Close": {
			func(near net.Conn, _ *net.TCPConn) { near.Close() },
			write,
			net.ErrClosed,
		},
		"write after CloseWrite": {
			func(near net.Conn, _ *net.TCPConn) {
				near.(*net.TCPConn).CloseWrite() //nolint:errcheck // the write shows it
			},
			write,
			syscall.EPIPE,
		},
		"read deadline": {
			func(near net.Conn, _ *net.TCPConn) {
				near.SetReadDeadline(longAgo) //nolint:errcheck // the read shows it
			},
			read,
			os.ErrDeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			kind := func(err error) (op string, timeout bool) {
				var of *net.OpError
				if errors.As(err, &of) {
					return of.Op, of.Timeout()
				}
				return "", false
			}
			near, far := socketPair(t)
			c.before(near.(*socket).Conn, far)
			err := c.do(near)
			near, far = socketPair(t)
			c.before(near.(*socket).Conn, far)
			plain := c.do(near.(*socket).Conn)
			op, timeout := kind(err)
			wantOp, wantTimeout := kind(plain)
			if !errors.Is(err, c.want) || !errors.Is(plain, c.want) || op != wantOp || timeout != wantTimeout {
				t.Errorf("the error is %v, and that of net is %v", err, plain)
			}
		})
	}
}

// TestSocketIsInterrupted: a deadline that is set during a read, or a Close, ends the read.
func TestSocketIsInterrupted(t *testing.T) {
	for name, interrupt := range map[string]func(net.Conn){
		"deadline": func(c net.Conn) { c.SetReadDeadline(longAgo) }, //nolint:errcheck // the read shows it
		"close":    func(c net.Conn) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			near, _ := socketPair(t)
			ended := make(chan error)
			go func() {
				_, err := near.Read(make([]byte, 1))
				ended <- err
			}()
			for near.(*socket).in.busy.TryLock() { // until it reads
				near.(*socket).in.busy.Unlock()
				time.Sleep(time.Millisecond)
			}
			interrupt(near)
			if err := <-ended; err == nil {
				t.Error("the read returned without an error")
			}
		})
	}
}

// TestConnectionIsASocket: a connection to a server reads and writes without the scheduler's monitor.
func TestConnectionIsASocket(t *testing.T) {
	c := connectEcho(t, newEcho(t))
	if _, ok := c.net.Conn.(*socket); !ok {
		t.Errorf("the connection is a %T", c.net.Conn)
	}
}

// TestNotASocket: a connection that reads in its own way, or that blocks, is used as it is.
func TestNotASocket(t *testing.T) {
	near, _ := socketPair(t)
	bare := near.(*socket).Conn.(*net.TCPConn)
	own := struct{ *net.TCPConn }{bare}
	if got := newSocket(own); got != net.Conn(own) {
		t.Errorf("a connection with methods of its own became a %T", got)
	}
	file, err := bare.File() // shares the flags of the connection
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	file.Fd() // lets it block
	if got := newSocket(bare); got != net.Conn(bare) {
		t.Errorf("a connection that blocks became a %T", got)
	}
}
