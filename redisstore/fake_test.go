package redisstore_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A fake is a server that says what a test wants, for what a real one cannot easily be brought to say. It knows as much
// of Redis as opening a store takes.
type fake struct {
	listener net.Listener

	mu      sync.Mutex
	answers map[string]string // by command; the answer as it goes over the wire
	conns   map[net.Conn]bool
}

const info = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:0123456789abcdef0123456789abcdef01234567\r\nrole:master\r\n"

// newFake starts a fake. Its end is the end of the test.
func newFake(t *testing.T) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	now := time.Now()
	f := &fake{listener: l, conns: map[net.Conn]bool{}, answers: map[string]string{
		"HELLO":     "%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n",
		"INFO":      bulk(info),
		"TIME":      fmt.Sprintf("*2\r\n%s%s", bulk(strconv.FormatInt(now.Unix(), 10)), bulk("0")),
		"SUBSCRIBE": ">3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n",
		"PING":      "+PONG\r\n",
		"PUBLISH":   ":0\r\n",
		"SET":       "+OK\r\n",
		"GET":       bulk("1 identity"),
		"PROBE":     bulk("ok"),
		"ARRIVE":    "*1\r\n" + bulk("ok"),
	}}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.hangUp()
		conns.Wait()
	})
	return f
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func (f *fake) addr() string { return f.listener.Addr().String() }

// says sets the answer to a command.
func (f *fake) says(command, answer string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[command] = answer
}

// hangUp ends all connections.
func (f *fake) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.conns {
		conn.Close()
	}
	clear(f.conns)
}

// serve answers one client until it goes away. A command without an answer gets none, ever.
func (f *fake) serve(conn net.Conn) {
	f.mu.Lock()
	f.conns[conn] = true
	f.mu.Unlock()
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		f.mu.Lock()
		answer := f.answers[commandOf(args)]
		f.mu.Unlock()
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// commandOf is what a client wants. The two scripts that each connection begins with have names of their own.
func commandOf(args []string) string {
	command := strings.ToUpper(args[0])
	if command == "EVALSHA" && strings.HasSuffix(args[3], ":mark") {
		if args[2] == "1" {
			return "PROBE"
		}
		return "ARRIVE"
	}
	return command
}

func readCommand(r *bufio.Reader) (args []string, err error) {
	number := func() int {
		line, e := r.ReadString('\n')
		if e != nil || len(line) < 2 {
			err = io.ErrUnexpectedEOF
			return 0
		}
		n, e := strconv.Atoi(strings.TrimSpace(line[1:]))
		if e != nil {
			err = e
		}
		return n
	}
	for n := number(); n > 0 && err == nil; n-- {
		arg := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(r, arg)
		}
		args = append(args, string(arg[:len(arg)-2]))
	}
	return args, err
}
