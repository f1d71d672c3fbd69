package rediswire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// connectPipe returns a connection of the store's own over near, whose server is serve. It has not been greeted.
func connectPipe(t *testing.T, near, far net.Conn, serve func(net.Conn)) (*conn, *Connection) {
	t.Helper()
	var tasks sync.WaitGroup
	w := &Connection{}
	w.life, w.kill = context.WithCancel(context.Background())
	c := newConn(&tasks, &dialled{Conn: near, stop: func() bool { return true }}, w)
	tasks.Go(func() {
		defer far.Close()
		serve(far)
	})
	t.Cleanup(func() {
		w.End(nil)
		tasks.Wait()
	})
	return c, w
}

// answer replies to each command with the next of some texts, and then reads on.
func answer(texts ...string) func(net.Conn) {
	return func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for {
			if _, err := readWords(r); err != nil {
				return
			}
			if len(texts) > 0 {
				if _, err := io.WriteString(conn, texts[0]); err != nil {
					return
				}
				texts = texts[1:]
			}
		}
	}
}

// TestSurplusReplyHalf: behind a reply comes half of another that was not requested. It is not taken for the reply to
// the next request.
func TestSurplusReplyHalf(t *testing.T) {
	near, far := net.Pipe()
	c, _ := connectPipe(t, near, far, answer("$5\r\nfirst\r\n$5\r\nwro", "ng\r\n$6\r\nsecond\r\n"))
	if err := say(t.Context(), c, "first"); err != nil {
		t.Fatal(err)
	}
	if err := say(t.Context(), c, "second"); !errors.Is(err, ErrShape) {
		t.Errorf("%v, want %v", err, ErrShape)
	}
}

// TestPushBetweenReplies: a push that comes in two halves between replies is skipped.
func TestPushBetweenReplies(t *testing.T) {
	near, far := net.Pipe()
	c, _ := connectPipe(t, near, far, answer("$5\r\nfirst\r\n>2\r\n+invali", "date\r\n_\r\n$6\r\nsecond\r\n"))
	for _, text := range []string{"first", "second"} {
		if err := say(t.Context(), c, text); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSurplusReplies: a server sends more replies than were requested, and another caller sends a request before the
// connection has ended. None of the surplus replies is taken for the reply to it.
func TestSurplusReplies(t *testing.T) {
	near, far := net.Pipe()
	c, w := connectPipe(t, near, far, answer("$5\r\nfirst\r\n$7\r\nsurplus\r\n$5\r\nwrong\r\n"))
	var ended atomic.Bool
	var second error
	c.lost = func(why error) {
		if !ended.Swap(true) {
			second = say(t.Context(), c, "second")
		}
		w.End(why)
	}
	if err := say(t.Context(), c, "first"); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(second, ErrShape) {
		t.Errorf("%v, want %v", second, ErrShape)
	}
}

// A halfWriter writes half of the first bytes, and fails.
type halfWriter struct {
	net.Conn
	failed atomic.Bool
}

var errHalf = errors.New("half of it was written")

func (h *halfWriter) Write(b []byte) (int, error) {
	if h.failed.Swap(true) {
		return h.Conn.Write(b)
	}
	n, _ := h.Conn.Write(b[:len(b)/2])
	return n, errHalf
}

// TestNothingBehindHalfRequest: a caller has written half of its request when that fails. Nothing is written behind it:
// the server would read it as a part of the request.
func TestNothingBehindHalfRequest(t *testing.T) {
	near, far := net.Pipe()
	var got strings.Builder
	read := make(chan struct{})
	c, w := connectPipe(t, &halfWriter{Conn: near}, far, func(conn net.Conn) {
		defer close(read)
		io.Copy(&got, conn) //nolint:errcheck // it ends with the connection
	})
	var ended atomic.Bool
	c.lost = func(why error) {
		if !ended.Swap(true) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := say(ctx, c, "second"); err == nil {
				t.Error("a request behind half of another was replied to")
			}
		}
		w.End(why)
	}
	if err := say(t.Context(), c, "first"); !errors.Is(err, errHalf) {
		t.Errorf("%v, want %v", err, errHalf)
	}
	<-read
	if strings.Contains(got.String(), "second") {
		t.Errorf("the server got %q", got.String())
	}
}

// TestGiveUpWhileOthersCall: a server is silent, and a caller that reads gives up. It is interrupted, also if others
// call in every tick.
func TestGiveUpWhileOthersCall(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go io.Copy(io.Discard, far) //nolint:errcheck // it ends with the connection
	c := &conn{net: &dialled{Conn: near}, toRead: make(chan struct{}, 1), dead: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	given := make(chan error, 1)
	go func() { given <- say(ctx, c, "given up") }()
	eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.reading
	})
	cancel()
	var seen watch
	for range 3 {
		c.check(&seen)
		c.mu.Lock()
		c.calls++
		c.mu.Unlock()
	}
	select {
	case err := <-given:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it reads on")
	}
}

// eventually returns when something is so, or fails the test.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it did not happen")
		}
	}
}

// TestNoCommands: nothing is sent for no commands, and the next call gets its reply.
func TestNoCommands(t *testing.T) {
	near, far := net.Pipe()
	c, w := connectPipe(t, near, far, answer("$5\r\nfirst\r\n"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if replies := w.DoAll(ctx, nil); len(replies) != 0 {
		t.Errorf("%d replies, want none", len(replies))
	}
	if err := say(ctx, c, "first"); err != nil {
		t.Error(err)
	}
}

// scatter replies to ECHO in pieces of any size, with pauses that are longer than a tick now and then, and with pushes
// and attributes in between.
func scatter(seed uint64) func(net.Conn) {
	return func(conn net.Conn) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // it is to be the same each time
		r := bufio.NewReader(conn)
		var out []byte
		for {
			words, err := readWords(r)
			if err != nil {
				return
			}
			switch random.IntN(8) {
			case 0:
				out = append(out, ">2\r\n+invalidate\r\n*1\r\n$3\r\nkey\r\n"...)
			case 1:
				out = append(out, "|1\r\n+popular\r\n*2\r\n:1\r\n_\r\n"...)
			}
			out = appendWord(out, words[len(words)-1])
			if r.Buffered() > 0 && random.IntN(2) == 0 {
				continue
			}
			for len(out) > 0 {
				if random.IntN(150) == 0 {
					time.Sleep(time.Duration(random.IntN(int(4 * tick))))
				}
				n := 1 + random.IntN(len(out))
				if _, err := conn.Write(out[:n]); err != nil {
					return
				}
				out = out[n:]
			}
		}
	}
}

// TestRepliesAreOwn: whatever the schedule, each call gets the replies to its own request. Callers come alone and many
// at once, send one or several commands, and give up at any moment.
func TestRepliesAreOwn(t *testing.T) {
	t.Parallel()
	for seed, dial := range []func(*testing.T) (near, far net.Conn){pipe, overTCP} {
		near, far := dial(t)
		c, w := connectPipe(t, near, far, scatter(uint64(seed)))
		var given, got int
		var mu sync.Mutex
		caller := func(id int) {
			random := rand.New(rand.NewPCG(uint64(seed), uint64(id))) //nolint:gosec // it is to be the same each time
			for n := range 25 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(int(16*tick))))
				commands := make([][]string, 1+random.IntN(4))
				for i := range commands {
					commands[i] = []string{"ECHO", fmt.Sprintf("%d %d %d %0*d", id, n, i, random.IntN(300), 0)}
				}
				replies := c.do(ctx, &request{words: commands})
				cancel()
				for i, reply := range replies {
					text, err := reply.Text()
					if err == nil && text != commands[i][1] {
						t.Errorf("the reply to %q is %q", commands[i][1], text)
					}
				}
				mu.Lock()
				if replies[0].Failure() == nil {
					got++
				} else {
					given++
				}
				mu.Unlock()
			}
		}
		for id, together := range []int{1, 2, 3, 24, 1} {
			var all sync.WaitGroup
			for i := range together {
				all.Go(func() { caller(100*id + i) })
			}
			all.Wait()
		}
		select {
		case <-w.Dead():
			t.Error(w.Why())
		default:
		}
		if got == 0 || given == 0 {
			t.Errorf("%d calls got replies and %d gave up, want both", got, given)
		}
	}
}

func pipe(*testing.T) (near, far net.Conn) { return net.Pipe() }

func overTCP(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return newSocket(near), far
}
