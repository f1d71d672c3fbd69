package zkstore

import (
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// A link is one network connection to a server. It notes what the library does not tell: when something was sent over
// it, and the timeout that the server has granted.
type link struct {
	net.Conn
	patience time.Duration // for the server's first response
	sent     touches
	watches  bool // are set again over it

	mu       sync.Mutex
	response []byte      // the beginning of the server's first response
	received int         // how many bytes
	waiting  []time.Time // when requests were sent that have no response yet
	head     []byte      // the beginning of a message, as far as it was received
	rest     int         // how many bytes of that message are to come after its head
}

// watchPause is for how long the library does not get a response over a link on which it sets watches again. It reads
// the number of the last transaction for that while it takes responses, which change the number: then it may pass over
// events. It does not say when it has done so, but it takes no longer than starting a goroutine.
const watchPause = 20 * time.Millisecond

// A message of the server begins with its length and the number of the request that it responds to.
const (
	headEnd = 8
	event   = -1 // the number of a message that responds to nothing
)

// The beginning of the response to a connection request: its length, the version of the protocol, and the timeout of
// the session in milliseconds.
const (
	lengthEnd  = 4
	timeoutAt  = 8
	timeoutEnd = 12
)

// Read implements net.Conn.
func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if l.note(b[:n]) {
		time.Sleep(watchPause)
		l.mu.Lock() // what was sent meanwhile was sent before, for the race detector too
		l.watches = false
		l.mu.Unlock()
	}
	return n, err
}

// note notes what was received. It reports whether that is the first after the first response, and has to wait.
func (l *link) note(b []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if missing := timeoutEnd - len(l.response); missing > 0 {
		l.response = append(l.response, b[:min(len(b), missing)]...)
	}
	l.received += len(b)
	l.noteResponses(b)
	return l.watches && l.received > lengthEnd && l.received > lengthEnd+int(binary.BigEndian.Uint32(l.response))
}

// noteResponses notes which requests the server has received for certain: as many as it has responded to. The mutex is
// locked.
func (l *link) noteResponses(b []byte) {
	for len(b) > 0 {
		if l.rest > 0 {
			n := min(l.rest, len(b))
			l.rest, b = l.rest-n, b[n:]
			continue
		}
		n := min(headEnd-len(l.head), len(b))
		l.head, b = append(l.head, b[:n]...), b[n:]
		if len(l.head) < headEnd {
			return
		}
		l.rest = lengthEnd + int(binary.BigEndian.Uint32(l.head)) - headEnd
		number := int32(binary.BigEndian.Uint32(l.head[lengthEnd:])) //nolint:gosec // it is one
		l.head = l.head[:0]
		if number != event && len(l.waiting) > 0 {
			l.sent.add(l.waiting[0], time.Now())
			l.waiting = l.waiting[1:]
		}
	}
}

// granted returns the session's timeout, which is 0 as long as there was no response.
func (l *link) granted() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.response) < timeoutEnd {
		return 0
	}
	return time.Duration(binary.BigEndian.Uint32(l.response[timeoutAt:])) * time.Millisecond
}

// SetReadDeadline implements net.Conn. The library would wait for the first response for several timeouts of the
// session.
func (l *link) SetReadDeadline(t time.Time) error {
	if most := time.Now().Add(l.patience); l.granted() == 0 && (t.IsZero() || t.After(most)) {
		t = most
	}
	return l.Conn.SetReadDeadline(t)
}

// Write implements net.Conn. The library writes each request, and each ping, at once. It learns from Read that one has
// failed: a request that fails here while the library is closed blocks it forever, by one result too many.
func (l *link) Write(b []byte) (int, error) {
	l.mu.Lock()
	l.waiting = append(l.waiting, time.Now())
	l.mu.Unlock()
	if _, err := l.Conn.Write(b); err != nil {
		l.Conn.Close() //nolint:errcheck // it is not used any more
	}
	return len(b), nil
}

// touches are times at which something was sent over a link that the server has received. A server that receives
// anything from a client extends its session, but for a while only in its own eyes: it reports the sessions of its
// clients to the leader every half tick.
type touches struct {
	lag time.Duration // within which a server reports

	mu    sync.Mutex
	times []touch // in order; the first is the only one that was heard longer than lag ago
}

// A touch is a request that has a response. It may have been on its way for long: all that is known is that the server
// had it when the response was heard.
type touch struct{ sent, heard time.Time }

// spacing is the part of the lag within which one touch is noted.
const spacing = 8

// add notes a touch. One that is close to the last is left out.
func (t *touches) add(sent, heard time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.times); n > 0 && heard.Sub(t.times[n-1].heard) < t.lag/spacing {
		return
	}
	t.times = append(t.times, touch{sent, heard})
	for len(t.times) > 1 && heard.Sub(t.times[1].heard) >= t.lag {
		t.times = t.times[1:]
	}
}

// before returns when the last touch was sent that was heard by then, or zero.
func (t *touches) before(limit time.Time) (last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, at := range t.times {
		if at.heard.After(limit) {
			break
		}
		last = at.sent
	}
	return last
}
