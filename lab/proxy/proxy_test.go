package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestPass(t *testing.T) {
	dir, err := os.MkdirTemp("", "proxy") //nolint:usetesting // the path of a socket must be short
	must(t, err)
	defer os.RemoveAll(dir)
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(dir, "socket")} {
		t.Run(network, func(t *testing.T) {
			e := startEcho(t, network, address)
			p := startProxy(t, network, e.listener.Addr().String())
			a, b := dial(t, p), dial(t, p)
			a.send("1", "2")
			a.hear("re:1", "re:2")
			b.call("3")
			if n := p.Connections(); n != 2 {
				t.Errorf("%d connections, want 2", n)
			}
			a.Close()
			await(t, "end of the first connection", func() bool { return p.Connections() == 1 && e.open() == 1 })
			b.call("4")
		})
	}
}

// A client that has sent all may still want to hear the answers.
func TestHalfClose(t *testing.T) {
	_, p := setUp(t)
	c := dial(t, p)
	c.send("1")
	must(t, c.Conn.(*net.TCPConn).CloseWrite())
	c.hear("re:1")
	c.hearEnd()
	await(t, "end of the connection", func() bool { return p.Connections() == 0 })
}

func TestServerCloses(t *testing.T) {
	e, p := setUp(t)
	c := dial(t, p)
	c.call("1")
	e.mu.Lock()
	for conn := range e.conns {
		conn.Close()
	}
	e.mu.Unlock()
	c.hearEnd()
	await(t, "end of the connection", func() bool { return p.Connections() == 0 })
}

func TestNoServer(t *testing.T) {
	p := startProxy(t, "unix", filepath.Join(t.TempDir(), "nobody"))
	checkRefused(t, p)
	end := p.Silence(All)
	c := dial(t, p)
	c.hearNothing() // a network that is silent does not tell that there is no server either
	end()
	c.hearEnd()
}

// Much passes in both directions at once, unchanged.
func TestVolume(t *testing.T) {
	e := startEcho(t, "tcp", "127.0.0.1:0")
	p := startProxy(t, "tcp", e.listener.Addr().String())
	end := p.Delay(All, time.Millisecond)
	defer end()
	c := dial(t, p)
	line := append(bytes.Repeat([]byte("x"), 9999), '\n')
	const lines = 500
	var sending sync.WaitGroup
	sending.Go(func() {
		for range lines {
			if _, err := c.Write(line); err != nil {
				t.Error(err)
				return
			}
		}
	})
	want := append([]byte("re:"), line...)
	got := make([]byte, len(want))
	for i := range lines {
		if _, err := io.ReadFull(c.r, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("line %d came back with %d bytes: %v", i, len(got), err)
		}
	}
	sending.Wait()
}

// A client that sends without end while nothing is delivered has to wait at some point.
func TestHeldIsBounded(t *testing.T) {
	_, p := setUp(t)
	defer p.Hold(Requests)()
	c := dial(t, p)
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for sent := 0; ; {
		must(t, c.SetWriteDeadline(time.Now().Add(moment)))
		n, err := c.Write(chunk)
		if isTimeout(err) && p.Held(Requests) >= maxHeld {
			break
		}
		if sent += n; sent > 10*maxHeld || err != nil && !isTimeout(err) {
			t.Fatalf("%d bytes were taken: %v", sent, err)
		}
	}
	if held := p.Held(Requests); held > 2*maxHeld {
		t.Errorf("%d bytes are held, want about %d", held, maxHeld)
	}
}

func TestCloseWithEverythingGoingOn(t *testing.T) {
	_, p := setUp(t)
	release := p.Hold(Replies)
	end := p.Delay(Requests, time.Hour)
	for range 5 {
		c := dial(t, p)
		c.send("1")
	}
	await(t, "requests on their way", func() bool { return p.Held(Requests) == 10 })
	for range 2 {
		must(t, p.Close())
	}
	if p.Connections() != 0 {
		t.Errorf("%d connections after Close", p.Connections())
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, method := range []string{"proxy.(*Proxy).accept", "proxy.(*connection)", "proxy.(*stream)"} {
		if bytes.Contains(stacks, []byte(method)) {
			t.Errorf("after Close there still runs %s", method)
		}
	}
	if _, err := p.listener.Accept(); !errors.Is(err, net.ErrClosed) { // its port may be somebody else's by now
		t.Errorf("it still listens after Close: %v", err)
	}
	release()
	end()
	p.Cut()()
	p.Heal()
}
