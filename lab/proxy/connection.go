package proxy

import (
	"context"
	"net"
)

// A connection is a client's connection to the proxy and the proxy's to the server. All fields but its sockets are
// guarded by the proxy's mutex.
type connection struct {
	proxy  *Proxy
	number uint64 // counts from 1
	client net.Conn
	server net.Conn // nil before it is connected
	up     stream   // from the client to the server
	down   stream   // and back
	sent   []byte   // what the client sent first, for the classifier
	closed bool

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
}

func newConnection(p *Proxy, client net.Conn) *connection {
	c := &connection{proxy: p, number: p.accepted, client: client}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.up.init(c, Requests)
	c.down.init(c, Down)
	return c
}

func (c *connection) streams() [2]*stream { return [2]*stream{&c.up, &c.down} }

func (c *connection) run() {
	p := c.proxy
	ctx, cancel := context.WithTimeout(c.ctx, dialPatience)
	defer cancel()
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, p.network, p.target)
	if err != nil {
		// The failure to connect is returned like a response: a fault may hold it back, too.
		c.down.push(nil)
		c.down.deliver(c.client)
		return
	}
	p.mu.Lock()
	if c.closed {
		reset(server)
	}
	c.server = server
	p.mu.Unlock()
	p.running.Go(func() { c.up.receive(c.client) })
	p.running.Go(func() { c.up.deliver(server) })
	p.running.Go(func() { c.down.receive(server) })
	c.down.deliver(c.client)
}

// heard inspects what the client sends, before it is forwarded.
func (c *connection) heard(data []byte) {
	p := c.proxy
	if more := min(len(data), maxSniffed-len(c.sent)); p.classify != nil && more > 0 {
		c.sent = append(c.sent, data[:more]...)
		if carries := p.classify(c.sent) & Down; carries != 0 {
			c.down.carries = carries
			c.down.changed.Broadcast()
		}
	}
	if p.toLose > 0 && !c.down.hole {
		p.toLose--
		c.down.hole = true
	}
}

// finished is called when everything of s was delivered, up to its end.
func (c *connection) finished(s *stream) {
	s.done = true
	if s == &c.up {
		_ = c.server.(interface{ CloseWrite() error }).CloseWrite()
		c.closeIfOver()
		return
	}
	c.close(c.server == nil)
}

// closeIfOver closes a connection on which both sides have ended, even if the server's end is held back from the
// client.
func (c *connection) closeIfOver() {
	if c.up.done && c.down.ended && c.down.hole {
		c.close(true)
	}
}

// close ends the connection, abruptly if a fault does it. What was held back on it is lost.
func (c *connection) close(abruptly bool) {
	if c.closed {
		return
	}
	c.closed = true
	c.cancel()
	delete(c.proxy.conns, c)
	for _, conn := range []net.Conn{c.client, c.server} {
		switch {
		case conn == nil:
		case abruptly:
			reset(conn)
		default:
			_ = conn.Close()
		}
	}
	c.up.changed.Broadcast()
	c.down.changed.Broadcast()
}
