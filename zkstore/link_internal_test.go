package zkstore

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// A link over which watches are to be set again lets the library have the response to its connection request, and no
// other before it has sent the watches.
func TestResponsesWaitForWatches(t *testing.T) {
	t.Parallel()
	here, server := net.Pipe()
	defer here.Close()
	defer server.Close()
	l := &link{Conn: here, watches: &gate{open: make(chan struct{})}}
	request := func(op uint32) []byte {
		b := binary.BigEndian.AppendUint32(nil, 8)
		return binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 1), op)
	}
	read := func(n int) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := io.ReadFull(l, make([]byte, n))
			done <- err
		}()
		return done
	}
	const ping, size = 11, 20
	go server.Write(append(binary.BigEndian.AppendUint32(nil, size), make([]byte, size+4)...)) //nolint:errcheck // a test's
	if err := <-read(4 + size); err != nil {
		t.Fatal(err)
	}
	next := read(4)
	go io.Copy(io.Discard, server) //nolint:errcheck // a test's
	if _, err := l.Write(request(ping)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-next:
		t.Error("a response came before the watches were set")
	case <-time.After(gatePatience / 5):
	}
	if _, err := l.Write(request(setWatches)); err != nil {
		t.Fatal(err)
	}
	if err := <-next; err != nil {
		t.Fatal(err)
	}
}
