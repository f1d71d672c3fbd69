package proxy

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"sync"
	"time"
)

// Limits of a proxy.
const (
	maxHeld       = 16 << 20        // bytes held back in one direction of a connection; then its sender is blocked
	maxSniffed    = 4 << 10         // bytes of a client that are shown to the classifier
	dialPatience  = 5 * time.Second // how long the server may take to accept
	markPatience  = time.Second     // how long the proxy waits for its own connection
	drainPatience = time.Second     // how long a release waits for a receiver that does not read
)

// A Proxy listens on a loopback port and forwards connections to its target. Its methods are safe for concurrent use.
type Proxy struct {
	network, target string
	classify        func(sent []byte) Flow
	listener        net.Listener
	running         sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	accepted uint64 // how many connections there have been
	conns    map[*connection]struct{}
	faults   map[*fault]struct{}
	toLose   int // how many replies are still to be lost

	marks struct {
		sync.Mutex
		waiting map[string]chan struct{} // by the address of a connection that the proxy made to itself
	}
}

// An Option configures a proxy.
type Option func(*Proxy)

// Classify sets the function that reports what the server will send on a connection: [Replies], [Pushes], or both; 0
// means that it is not known yet. It is called when a client sends something, with what the client has sent so far, up
// to 4 KiB. Without it, and while the result is 0, a connection may carry both. See [RESP2].
func Classify(fn func(sent []byte) Flow) Option {
	return func(p *Proxy) { p.classify = fn }
}

// Start starts a proxy to a server that listens on this network, "tcp" or "unix", and address. It forwards everything.
// The server need not be running yet.
func Start(network, address string, options ...Option) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("holdfast: proxy: %w", err)
	}
	p := &Proxy{
		network: network, target: address, listener: listener,
		conns: map[*connection]struct{}{}, faults: map[*fault]struct{}{},
	}
	p.marks.waiting = map[string]chan struct{}{}
	for _, option := range options {
		option(p)
	}
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the address of the proxy, as host:port. It never changes.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Connections returns the number of connections, including those whose client has disconnected while something is held
// back.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Held returns how many bytes of these flows were received and are not delivered yet.
func (p *Proxy) Held(flows Flow) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := 0
	for c := range p.conns {
		for _, s := range c.streams() {
			if s.carries&flows != 0 {
				total += s.size
			}
		}
	}
	return total
}

// Close cuts all connections and returns when all goroutines of the proxy have ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	clear(p.faults)
	p.closeConnections()
	p.mu.Unlock()
	err := p.listener.Close()
	p.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(time.Millisecond) // out of file descriptors, or the client has already disconnected
		case p.isMark(conn):
			_ = conn.Close()
		default:
			p.admit(conn)
		}
	}
}

func (p *Proxy) admit(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.refuses() {
		reset(client)
		return
	}
	p.accepted++
	c := newConnection(p, client)
	p.conns[c] = struct{}{}
	p.running.Go(c.run)
}

// settle returns when every connection made before the call has been admitted or refused. A client's connection is made
// by the kernel, and may wait to be accepted while the client already uses it. Connections are accepted in order, so
// the proxy makes one to itself and waits for that.
func (p *Proxy) settle() {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return // the port may belong to another process by now
	}
	p.marks.Lock() // so that the mark is known before it is accepted
	conn, err := net.DialTimeout("tcp", p.Addr(), markPatience)
	if err != nil {
		p.marks.Unlock()
		return // it was closed meanwhile
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	arrived := make(chan struct{})
	mark := conn.LocalAddr().String()
	p.marks.waiting[mark] = arrived
	p.marks.Unlock()
	select {
	case <-arrived:
	case <-time.After(markPatience): // it was closed meanwhile
		p.marks.Lock()
		delete(p.marks.waiting, mark)
		p.marks.Unlock()
	}
}

func (p *Proxy) isMark(conn net.Conn) bool {
	p.marks.Lock()
	defer p.marks.Unlock()
	from := conn.RemoteAddr().String()
	arrived, ok := p.marks.waiting[from]
	if ok {
		delete(p.marks.waiting, from)
		close(arrived)
	}
	return ok
}

// closeConnections breaks all connections. What was held back on them is lost.
func (p *Proxy) closeConnections() {
	for c := range p.conns {
		c.close(true)
	}
}

// reset closes a connection so that its other end gets an error rather than an orderly end, and what the kernel has
// not sent yet is lost.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

var subscribes = regexp.MustCompile(`(?i)\r\n[PS]?SUBSCRIBE\r\n`)

// RESP2 classifies the connections of a RESP2 client to a Redis server, for [Classify]. A connection with a
// subscription carries only pushes, since RESP2 allows nothing else on it. With RESP3, replies and pushes share a
// connection, and there is nothing to classify.
func RESP2(sent []byte) Flow {
	if subscribes.Match(sent) {
		return Pushes
	}
	return Replies
}
