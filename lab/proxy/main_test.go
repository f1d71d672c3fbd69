package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const (
	patience = 30 * time.Second      // for what must happen
	moment   = 50 * time.Millisecond // for what must not happen: time enough for it on loopback
)

// An echo is a server that answers each line with "re:" before it, and notes what landed. To the line "push" it
// answers nothing at once: it pushes to that connection whatever lands later on others.
type echo struct {
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	landed []string
	conns  map[net.Conn]bool
	pushTo []net.Conn
}

func startEcho(t *testing.T, network, address string) *echo {
	t.Helper()
	listener, err := net.Listen(network, address)
	must(t, err)
	e := &echo{listener: listener, conns: map[net.Conn]bool{}}
	e.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns[conn] = true
			e.mu.Unlock()
			e.running.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		e.mu.Lock()
		for conn := range e.conns {
			conn.Close()
		}
		e.mu.Unlock()
		e.running.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		line := lines.Text()
		e.mu.Lock()
		e.landed = append(e.landed, line)
		if line == "push" {
			e.pushTo = append(e.pushTo, conn)
		} else {
			_, _ = fmt.Fprintf(conn, "re:%s\n", line)
			for _, to := range e.pushTo {
				_, _ = fmt.Fprintf(to, "push:%s\n", line)
			}
		}
		e.mu.Unlock()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, conn)
	e.pushTo = slices.DeleteFunc(e.pushTo, func(c net.Conn) bool { return c == conn })
	conn.Close()
}

// lines is what has landed so far.
func (e *echo) lines() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.landed)
}

// open is how many connections the server has.
func (e *echo) open() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.conns)
}

// A client of the echo server.
type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

// checkRefused demands that a new connection breaks, at the latest when it is used.
func checkRefused(t *testing.T, p *Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return
	}
	defer conn.Close()
	(&client{t, conn, bufio.NewReader(conn)}).hearEnd()
}

// send sends lines in one piece.
func (c *client) send(lines ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c, strings.Join(lines, "\n")+"\n"); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// hear demands these lines.
func (c *client) hear(want ...string) {
	c.t.Helper()
	for _, want := range want {
		if got, err := c.line(patience); got != want {
			c.t.Fatalf("heard %q, %v, want %q", got, err, want)
		}
	}
}

// call sends a line, and demands its answer.
func (c *client) call(line string) {
	c.t.Helper()
	c.send(line)
	c.hear("re:" + line)
}

// hearNothing demands that nothing comes, not even the end.
func (c *client) hearNothing() {
	c.t.Helper()
	if got, err := c.line(moment); !isTimeout(err) {
		c.t.Errorf("heard %q, %v, want nothing", got, err)
	}
}

// hearEnd demands the end of the connection, with nothing before it.
func (c *client) hearEnd() {
	c.t.Helper()
	if got, err := c.line(patience); got != "" || err == nil || isTimeout(err) {
		c.t.Errorf("heard %q, %v, want the end", got, err)
	}
}

func (c *client) line(patience time.Duration) (string, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	line, err := c.r.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// setUp starts a server and a proxy to it.
func setUp(t *testing.T, options ...Option) (*echo, *Proxy) {
	t.Helper()
	e := startEcho(t, "tcp", "127.0.0.1:0")
	return e, startProxy(t, "tcp", e.listener.Addr().String(), options...)
}

func startProxy(t *testing.T, network, address string, options ...Option) *Proxy {
	t.Helper()
	p, err := Start(network, address, options...)
	must(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// awaitHoles waits until so many connections have lost something.
func awaitHoles(t *testing.T, p *Proxy, want int) {
	t.Helper()
	await(t, fmt.Sprintf("hole in %d connections", want), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		n := 0
		for c := range p.conns {
			if c.up.hole || c.down.hole {
				n++
			}
		}
		return n == want
	})
}

// await polls until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after %v", what, patience)
		}
	}
}

func checkLanded(t *testing.T, e *echo, want ...string) {
	t.Helper()
	await(t, fmt.Sprintf("landing of %d lines", len(want)), func() bool { return len(e.lines()) >= len(want) })
	if got := e.lines(); !slices.Equal(got, want) {
		t.Errorf("landed: %q, want %q", got, want)
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
