package rediswire

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// errNoDeadlines is the error of a dialled connection without deadlines, such as one through a tunnel.
var errNoDeadlines = errors.New("the connection has no deadlines")

// connect dials for w, and greets the server. It returns errNoDeadlines if callers can't read from the connection.
func (c *ownClient) connect(tasks *sync.WaitGroup, w *Connection) error {
	over, err := c.dial(c.options.InitAddress[0], c.options.TLSConfig)
	if err != nil {
		return err
	}
	if over.SetDeadline(time.Time{}) != nil {
		over.cut()
		return errNoDeadlines
	}
	over.Conn = newSocket(over.Conn)
	own := newConn(tasks, over, w)
	ctx, cancel := context.WithTimeout(c.open, c.patience)
	defer cancel()
	return c.greet(ctx, own)
}

// greet logs in, and sets the name and the database of the connection. A server without HELLO gets AUTH, CLIENT SETNAME
// and SELECT.
func (c *ownClient) greet(ctx context.Context, own *conn) error {
	user, password := c.options.Username, c.options.Password
	if give := c.options.AuthCredentialsFn; give != nil {
		credentials, err := give(rueidis.AuthCredentialsContext{Address: own.net.RemoteAddr()})
		if err != nil {
			return err
		}
		user, password = credentials.Username, credentials.Password
	}
	hello, auth := []string{"HELLO", "3"}, []string(nil)
	switch {
	case user != "":
		hello, auth = append(hello, "AUTH", user, password), []string{"AUTH", user, password}
	case password != "":
		hello, auth = append(hello, "AUTH", "default", password), []string{"AUTH", password}
	}
	hello = append(hello, "SETNAME", c.options.ClientName)
	commands := [][]string{hello}
	if c.options.SelectDB != 0 {
		commands = append(commands, []string{"SELECT", strconv.Itoa(c.options.SelectDB)})
	}
	err := own.all(ctx, commands)
	if refusal, ok := IsRefusal(err); ok && unknownHello(refusal) {
		commands[0] = []string{"CLIENT", "SETNAME", c.options.ClientName}
		if auth != nil {
			commands = append([][]string{auth}, commands...)
		}
		err = own.all(ctx, commands)
	}
	return err
}

// unknownHello reports whether a server refuses HELLO because it does not know it, or not with version 3 of the
// protocol.
func unknownHello(r Refusal) bool {
	said := strings.ToLower(string(r))
	return strings.HasPrefix(said, "noproto") ||
		strings.HasPrefix(said, "unknown command") && strings.Contains(said, "hello")
}

// all sends commands and returns the first error among their replies.
func (c *conn) all(ctx context.Context, commands [][]string) error {
	for _, reply := range c.do(ctx, &request{words: commands}) {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}
