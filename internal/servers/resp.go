package servers

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// answerPatience is how long a Redis server may take to answer, on a machine that is busy with other tests.
const answerPatience = 20 * time.Second

// A Conn is a connection to a Redis server that speaks RESP2, and knows as little of it as tests need. It is for one
// goroutine.
type Conn struct {
	conn     net.Conn
	r        *bufio.Reader
	patience time.Duration
}

// A RedisError is an error reply of Redis. The connection is still good.
type RedisError string

// Error is what Redis said.
func (e RedisError) Error() string { return string(e) }

// NewConn returns a Conn that uses RESP2 over conn. Each reply may take as long as patience.
func NewConn(conn net.Conn, patience time.Duration) *Conn {
	return &Conn{conn: conn, r: bufio.NewReader(conn), patience: patience}
}

// Do sends a command and returns its reply: a string, an int64, a []any or nil. An error answer is a RedisError.
func (c *Conn) Do(args ...string) (any, error) {
	if err := c.Send(args...); err != nil {
		return nil, err
	}
	return c.Receive()
}

// Send sends a command and leaves its reply for Receive.
func (c *Conn) Send(args ...string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
		return err
	}
	_, err := io.WriteString(c.conn, b.String())
	return err
}

// Receive returns the next reply, or the next message of a subscription.
func (c *Conn) Receive() (any, error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(c.patience)); err != nil {
		return nil, err
	}
	return c.read()
}

// Close closes the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// read reads one reply. An error reply is returned as a RedisError.
func (c *Conn) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, fmt.Errorf("an empty line is no RESP")
	}
	switch kind, rest := line[0], line[1:]; kind {
	case '+':
		return rest, nil
	case '-':
		return nil, RedisError(rest)
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 { // -1 is the length of a null
			return nil, err
		}
		if kind == '$' {
			return c.readBulk(n)
		}
		return c.readArray(n)
	}
	return nil, fmt.Errorf("%q is no RESP2", line)
}

// readBulk reads the rest of a bulk string with this length.
func (c *Conn) readBulk(n int) (any, error) {
	bulk := make([]byte, n+len("\r\n"))
	if _, err := io.ReadFull(c.r, bulk); err != nil {
		return nil, err
	}
	return string(bulk[:n]), nil
}

// readArray reads the elements of an array with this length.
func (c *Conn) readArray(n int) (any, error) {
	array := make([]any, n)
	for i := range array {
		element, err := c.read()
		if redis, ok := err.(RedisError); ok { //nolint:errorlint // read wraps nothing
			element, err = redis, nil // an element of EXEC's reply
		}
		if err != nil {
			return nil, err
		}
		array[i] = element
	}
	return array, nil
}
