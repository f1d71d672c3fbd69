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

// A request that can't be written is not an error of Write, but of the Read that the library is in.
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

// A ping is on its way for longer than the lag, so that no server has reported it when a request is sent: that proves
// nothing. It does when the server had responded to the ping a lag before. An event is no response.
func TestWhatHasNoResponseIsNoTouch(t *testing.T) {
	t.Parallel()
	const lag, size = time.Minute, 20
	here, server := net.Pipe()
	defer here.Close()
	defer server.Close()
	l := &link{Conn: here, sent: touches{lag: lag}}
	go io.Copy(io.Discard, server) //nolint:errcheck // until it is closed
	receive := func(number int32) {
		t.Helper()
		message := binary.BigEndian.AppendUint32(nil, size)
		message = binary.BigEndian.AppendUint32(message, uint32(number))
		go server.Write(append(message, make([]byte, size-4)...)) //nolint:errcheck // Read has the error
		for _, n := range []int{lengthEnd, size} {
			if _, err := io.ReadFull(l, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	began := time.Now()
	if _, err := l.Write(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	written := time.Now()
	receive(event)
	if got := l.sent.before(began.Add(time.Hour)); !got.IsZero() {
		t.Errorf("what has no response counts as of %v", got)
	}
	time.Sleep(time.Millisecond)
	answered := time.Now()
	receive(-2)
	if got := l.sent.before(answered); !got.IsZero() {
		t.Errorf("before its response it counts as of %v", got)
	}
	if got := l.sent.before(time.Now()); got.Before(began) || got.After(written) {
		t.Errorf("after its response it counts as of %v after it was sent", got.Sub(began))
	}
}
