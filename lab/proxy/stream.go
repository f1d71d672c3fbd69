package proxy

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// A stream is one direction of a connection. One goroutine always receives into its queue, and one delivers from it
// when it may. So a client can disconnect while its bytes are held back, and they are not lost. All fields are guarded
// by the proxy's mutex.
type stream struct {
	conn    *connection
	carries Flow
	changed *sync.Cond // on the proxy's mutex

	queue     []chunk
	size      int    // bytes in the queue
	arrived   uint64 // chunks so far
	delivered uint64 // of them
	hole      bool   // it has lost bytes, and therefore loses all that follow
	ended     bool   // nothing more will be received
	done      bool   // all was delivered, up to the end
}

// A chunk is bytes that were received together, or the end of the stream.
type chunk struct {
	data []byte    // nil: the end
	due  time.Time // not before
}

func (s *stream) init(c *connection, carries Flow) {
	s.conn, s.carries, s.changed = c, carries, sync.NewCond(&c.proxy.mu)
}

// receive reads from a socket until its end.
func (s *stream) receive(from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			s.push(bytes.Clone(buf[:n]))
		}
		if err != nil {
			s.push(nil) // an abrupt end too: it must not overtake the bytes before it
			return
		}
	}
}

// push appends bytes, or nil for the end.
func (s *stream) push(data []byte) {
	p := s.conn.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	for s.size >= maxHeld && !s.conn.closed {
		s.changed.Wait()
	}
	s.ended = data == nil
	if s == &s.conn.up && data != nil {
		s.conn.heard(data)
	}
	if s.hole || p.silences(s) {
		s.hole = true
		s.conn.closeIfOver()
		return
	}
	s.queue = append(s.queue, chunk{data, time.Now().Add(p.delays(s))})
	s.size += len(data)
	s.arrived++
	s.changed.Broadcast()
}

// deliver writes what may pass to a socket, until the end. If the receiver has disconnected, the sender does not
// notice: the bytes are discarded.
func (s *stream) deliver(to net.Conn) {
	p := s.conn.proxy
	gone := false
	for {
		c, ok := s.next()
		if !ok {
			return
		}
		if c.data != nil && !gone {
			_, err := to.Write(c.data)
			gone = err != nil
		}
		p.mu.Lock()
		s.delivered++
		s.size -= len(c.data)
		s.changed.Broadcast()
		if c.data == nil && !s.conn.closed {
			s.conn.finished(s)
		}
		p.mu.Unlock()
		if c.data == nil {
			return
		}
	}
}

// next waits for the next chunk that may pass. It returns false if the connection was closed.
func (s *stream) next() (c chunk, ok bool) {
	p := s.conn.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	for !s.conn.closed {
		if len(s.queue) == 0 || p.holds(s) {
			s.changed.Wait()
			continue
		}
		c = s.queue[0]
		early := time.Until(c.due)
		if early <= 0 {
			s.queue = s.queue[1:]
			return c, true
		}
		alarm := time.AfterFunc(early, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			s.changed.Broadcast()
		})
		s.changed.Wait()
		alarm.Stop()
	}
	return chunk{}, false
}

// flowing reports whether what is in the queue is being delivered, or may be.
func (s *stream) flowing() bool {
	if s.conn.closed || s.done {
		return false
	}
	busy := s.arrived-s.delivered > uint64(len(s.queue)) // a chunk was taken out and is being written
	return busy || !s.conn.proxy.holds(s) && time.Until(s.queue[0].due) <= 0
}
