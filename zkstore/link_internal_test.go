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
