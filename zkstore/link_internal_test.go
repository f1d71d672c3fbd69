package zkstore

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// Over a link on which watches are set again, the library gets the response to its connection request at once, and the
// next one only when it has had the time to set them.
func TestResponsesWaitForWatches(t *testing.T) {
	t.Parallel()
	here, server := net.Pipe()
	defer here.Close()
	defer server.Close()
	l := &link{Conn: here, watches: true}
	const size, responses = 20, 3
	go func() {
		for range responses {
			_, _ = server.Write(append(binary.BigEndian.AppendUint32(nil, size), make([]byte, size)...))
		}
	}()
	for i, waits := range []bool{false, true, false} {
		began, before := time.Now(), l.watches
		for _, n := range []int{lengthEnd, size} {
			if _, err := io.ReadFull(l, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
		if waited := before && !l.watches; waited != waits || waited && time.Since(began) < watchPause {
			t.Errorf("response %d has waited: %t, for %v", i, waited, time.Since(began))
		}
	}
}

// A request that can't be written is no error of Write, but of the Read that the library is in.
func TestFailedWriteEndsRead(t *testing.T) {
	t.Parallel()
	here, server := net.Pipe()
	defer server.Close()
	l := &link{Conn: here}
	if err := here.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := l.Read(make([]byte, 1))
		failed <- err
	}()
	if n, err := l.Write(make([]byte, 3)); n != 3 || err != nil {
		t.Errorf("%d bytes are written: %v", n, err)
	}
	if err := <-failed; err == nil {
		t.Error("it can be read from")
	}
}
