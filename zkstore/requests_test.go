package zkstore_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// Operations of ZooKeeper's protocol, and those that come by themselves.
const (
	opPing            = 11
	opCreateContainer = 19
	opSetWatches      = 101
)

// unimplemented is the code by which a server refuses an operation that it does not know.
const unimplemented = -6

// requests is a way to a server that counts the requests that pass it, by operation. It may refuse one as an old
// server would, and lose the response to one.
type requests struct {
	addr    string
	target  string
	refused int32 // an operation; 0: none

	mu     sync.Mutex
	counts map[int32]int
	loses  string // what a request has in it whose response is lost with its connection, once; empty: none
}

// countRequests starts a way to the server at an address.
func countRequests(t testing.TB, target string, refused int32) *requests {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	r := &requests{addr: listener.Addr().String(), target: target, refused: refused, counts: map[int32]int{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait() // stores are closed before
	})
	return r
}

func (r *requests) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		return
	}
	defer server.Close()
	var responses sync.WaitGroup
	defer responses.Wait()
	var lost atomic.Bool
	responses.Go(func() {
		io.Copy(unless{&lost, client}, server) //nolint:errcheck // the other side sees the end
		client.Close()
	})
	defer server.Close()
	for first := true; ; first = false {
		frame, err := readFrame(client)
		if err != nil {
			return
		}
		if !first { // that begins the session
			header := frame[4:]
			xid, op := int32(binary.BigEndian.Uint32(header)), int32(binary.BigEndian.Uint32(header[4:]))
			if op == r.refused {
				client.Write(refusal(xid)) //nolint:errcheck // likewise
				return
			}
			r.mu.Lock()
			r.counts[op]++
			if r.loses != "" && bytes.Contains(frame, []byte(r.loses)) {
				r.loses = ""
				lost.Store(true)
			}
			r.mu.Unlock()
		}
		if _, err := server.Write(frame); err != nil {
			return
		}
	}
}

// unless is a writer that fails once something is lost.
type unless struct {
	lost *atomic.Bool
	io.Writer
}

// Write implements io.Writer.
func (u unless) Write(b []byte) (int, error) {
	if u.lost.Load() {
		return 0, io.ErrClosedPipe
	}
	return u.Writer.Write(b)
}

// readFrame reads a request with its length.
func readFrame(from io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(length[:]))
	copy(frame, length[:])
	_, err := io.ReadFull(from, frame[4:])
	return frame, err
}

// refusal is the response to a request that the server does not know.
func refusal(xid int32) []byte {
	code := int32(unimplemented)
	frame := binary.BigEndian.AppendUint32(nil, 16)
	frame = binary.BigEndian.AppendUint32(frame, uint32(xid))
	frame = binary.BigEndian.AppendUint64(frame, 0) // no transaction
	return binary.BigEndian.AppendUint32(frame, uint32(code))
}

// sofar returns what has been asked for until now, by operation, without what comes by itself.
func (r *requests) sofar() map[int32]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := maps.Clone(r.counts)
	delete(counts, opPing)
	delete(counts, opSetWatches)
	return counts
}

// during returns how many requests of each operation are made while do runs, and until they become no more.
func (r *requests) during(t testing.TB, do func()) map[int32]int {
	t.Helper()
	before := r.settled(t)
	do()
	return since(before, r.settled(t))
}

// since returns what was asked for between two counts.
func since(before, after map[int32]int) map[int32]int {
	asked := maps.Clone(after)
	for op, n := range before {
		if asked[op] -= n; asked[op] == 0 {
			delete(asked, op)
		}
	}
	return asked
}

// settled returns what has been asked for when that has not changed for a moment.
func (r *requests) settled(t testing.TB) map[int32]int {
	t.Helper()
	last, since := r.sofar(), time.Now()
	testkit.Await(t, "no more is asked for", func() bool {
		if now := r.sofar(); !maps.Equal(now, last) {
			last, since = now, time.Now()
		}
		return time.Since(since) > 100*time.Millisecond // a claim that stands for 25 ms is watched
	})
	return last
}

// total is the number of requests of all operations.
func total(counts map[int32]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
