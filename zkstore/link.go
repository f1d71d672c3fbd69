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
	response []byte // the beginning of the server's first response
	received int    // how many bytes
}

// watchPause is for how long the library does not get a response over a link on which it sets watches again. It reads
// the number of the last transaction for that while it takes responses, which change the number: then it may pass over
// events. It does not say when it has done so, but it takes no longer than starting a goroutine.
const watchPause = 20 * time.Millisecond

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
		l.sent.before(time.Time{}) // what was sent meanwhile was sent before, for the race detector too
		l.mu.Lock()
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
	return l.watches && l.received > lengthEnd && l.received > lengthEnd+int(binary.BigEndian.Uint32(l.response))
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
// failed: a request that fails here while the library is closed blocks it for ever, by one result too many.
func (l *link) Write(b []byte) (int, error) {
	l.sent.add(time.Now())
	if _, err := l.Conn.Write(b); err != nil {
		l.Conn.Close() //nolint:errcheck // it is not used any more
	}
	return len(b), nil
}

// touches are times at which something was sent over a link. A server that receives anything from a client extends its
// session, but for a while only in its own eyes: it reports the sessions of its clients to the leader every half tick.
type touches struct {
	lag time.Duration // within which a server reports

	mu    sync.Mutex
	times []time.Time // in order; the first is the only one that is older than lag
}

// spacing is the part of the lag within which one time is noted.
const spacing = 8

// add notes a time. One that is close to the last is left out.
func (t *touches) add(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.times); n > 0 && now.Sub(t.times[n-1]) < t.lag/spacing {
		return
	}
	t.times = append(t.times, now)
	for len(t.times) > 1 && now.Sub(t.times[1]) >= t.lag {
		t.times = t.times[1:]
	}
}

// before returns the last time at which something was sent by then, or zero.
func (t *touches) before(limit time.Time) (last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, at := range t.times {
		if at.After(limit) {
			break
		}
		last = at
	}
	return last
}
