package rediswire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// An echo is a server that replies to ECHO with its argument, and to everything else with OK. It stands still while
// held.
type echo struct {
	listener net.Listener
	held     sync.RWMutex
	accepted atomic.Int64
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{listener: l}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			e.accepted.Add(1)
			serving.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	r, w := bufio.NewReader(conn), bufio.NewWriter(conn)
	for {
		words, err := readWords(r)
		if err != nil {
			return
		}
		e.held.RLock()
		reply := "+OK\r\n"
		if words[0] == "ECHO" {
			reply = fmt.Sprintf("$%d\r\n%s\r\n", len(words[1]), words[1])
		}
		io.WriteString(w, reply) //nolint:errcheck // Flush returns it
		e.held.RUnlock()
		if r.Buffered() == 0 {
			if w.Flush() != nil {
				return
			}
		}
	}
}

func readWords(r *bufio.Reader) (words []string, err error) {
	size := func() int {
		line, e := r.ReadString('\n')
		if e != nil {
			err = e
			return 0
		}
		n, e := strconv.Atoi(strings.TrimSpace(line[1:]))
		if e != nil {
			err = e
		}
		return n
	}
	for n := size(); n > 0 && err == nil; n-- {
		word := make([]byte, size()+2)
		if err == nil {
			_, err = io.ReadFull(r, word)
		}
		words = append(words, string(word[:len(word)-2]))
	}
	return words, err
}

// connectEcho returns a connection of the store's own, as callers use it.
func connectEcho(t *testing.T, e *echo) *conn {
	t.Helper()
	life, end := context.WithCancel(context.Background())
	client, err := NewClient(life, DialTimeout, rueidis.ClientOption{InitAddress: []string{e.listener.Addr().String()}},
		new(Way).Dial)
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	w := newConnection(client)
	if err := client.(*ownClient).connect(&tasks, w); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.End(nil)
		client.Close()
		end()
		tasks.Wait()
	})
	return w.own
}

func say(ctx context.Context, c *conn, text string) error {
	reply := c.run(ctx, &request{words: [][]string{{"ECHO", text}}})
	got, err := reply.Text()
	if err == nil && got != text {
		err = fmt.Errorf("the reply to %q is %q", text, got)
	}
	return err
}

// TestCallsOneByOne: calls that come one after the other read their replies themselves, also after many came at once.
func TestCallsOneByOne(t *testing.T) {
	c := connectEcho(t, newEcho(t))
	oneByOne := func() {
		before := c.switches.Load()
		const calls = 1000
		for i := range calls {
			if err := say(t.Context(), c, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		// On a busy machine a server may take longer than a tick, and then some calls wait for the reader.
		if n := c.switches.Load() - before; n > calls/2 {
			t.Errorf("%d of %d calls waited for another goroutine", n, calls)
		}
	}
	oneByOne()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for n := range 200 {
				if err := say(t.Context(), c, fmt.Sprintf("%d of %d", n, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	oneByOne()
}

// TestCallersGiveUp: a server stands still, and more callers give up than there is room for, by deadline and by
// cancellation. All return soon. When the server goes on, the next caller gets its own reply over the same connection.
func TestCallersGiveUp(t *testing.T) {
	e := newEcho(t)
	c := connectEcho(t, e)
	for round := range 3 {
		e.held.Lock()
		soon, cancelled := context.WithTimeout(t.Context(), 20*time.Millisecond)
		later, cancel := context.WithCancel(t.Context())
		time.AfterFunc(40*time.Millisecond, cancel)
		callers := 1 + 399*(round%2) // also one alone, which reads by itself
		var all sync.WaitGroup
		began := time.Now()
		for i := range callers {
			ctx := soon
			if i%2 == round/2 {
				ctx = later
			}
			all.Go(func() {
				if err := say(ctx, c, "given up"); !errors.Is(err, ctx.Err()) || ctx.Err() == nil {
					t.Errorf("caller %d: %v, want %v", i, err, ctx.Err())
				}
			})
		}
		all.Wait()
		took := time.Since(began)
		e.held.Unlock()
		cancelled()
		if took > 2*time.Second {
			t.Errorf("round %d: they took %v to give up", round, took)
		}
		if err := say(t.Context(), c, "after"); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
	if n := e.accepted.Load(); n != 1 {
		t.Errorf("there were %d connections, want 1", n)
	}
}

// TestDeadlineIsSoon: a caller whose deadline is so near that the reader might interrupt it too late returns at its
// deadline though the server stands still. Its deadline does not affect callers after it, which read by themselves.
func TestDeadlineIsSoon(t *testing.T) {
	e := newEcho(t)
	c := connectEcho(t, e)
	soon := func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), tick/2) }
	for range 3 {
		ctx, cancel := soon()
		if err := say(ctx, c, "soon"); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		cancel()
		if err := say(t.Context(), c, "later"); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.switches.Load(); n > 4 { // 0, unless the machine is busy; 5 if a deadline stayed
		t.Errorf("%d of 6 calls waited for another goroutine", n)
	}

	e.held.Lock()
	ctx, cancel := soon()
	defer cancel()
	began := time.Now()
	if err := say(ctx, c, "never"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want %v", err, context.DeadlineExceeded)
	}
	took := time.Since(began)
	e.held.Unlock()
	if took > time.Second {
		t.Errorf("it took %v to give up", took)
	}
	if err := say(t.Context(), c, "after"); err != nil {
		t.Error(err)
	}
}

// TestDeadlineWithoutInterruption: a caller whose deadline is near returns at it by itself, also if nothing interrupts
// it.
func TestDeadlineWithoutInterruption(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go io.Copy(io.Discard, far) //nolint:errcheck // it ends with the connection
	c := &conn{net: &dialled{Conn: near}, toRead: make(chan struct{}, 1), dead: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), tick/2)
	defer cancel()
	given := make(chan error, 1)
	go func() { given <- say(ctx, c, "never") }()
	select {
	case err := <-given:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want %v", err, context.DeadlineExceeded)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it reads on")
	}
}

// TestEndWhileCallerReads: a connection is ended while a caller reads alone. The caller gets the reason.
func TestEndWhileCallerReads(t *testing.T) {
	e := newEcho(t)
	c := connectEcho(t, e)
	e.held.Lock()
	defer e.held.Unlock()
	why := errors.New("it leads to another server")
	time.AfterFunc(time.Millisecond, func() { c.lost(why) })
	if err := say(t.Context(), c, "never"); !errors.Is(err, why) {
		t.Errorf("%v, want %v", err, why)
	}
	if err := say(t.Context(), c, "never"); !errors.Is(err, why) {
		t.Errorf("after the end: %v, want %v", err, why)
	}
}

// TestIdleConnectionEnds: the end of a connection is noticed though nothing is called over it.
func TestIdleConnectionEnds(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	var tasks sync.WaitGroup
	w := &Connection{}
	w.life, w.kill = context.WithCancel(context.Background())
	newConn(&tasks, &dialled{Conn: near, stop: func() bool { return true }}, w)
	far.Close()
	select {
	case <-w.Dead():
	case <-time.After(30 * time.Second):
		t.Error("nobody has noticed the end")
		w.End(nil)
	}
	tasks.Wait()
}
