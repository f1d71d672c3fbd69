package rediswire

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// TestExplainClosedConnection: we close a connection that is of no use while others still read from it. What they
// get is said in our words, not in those of package net or rueidis.
func TestExplainClosedConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	_, closed := conn.Read(make([]byte, 1))
	for _, err := range []error{closed, rueidis.ErrClosing} {
		why, final := Explain(err)
		if final || why.Error() != "it cannot be reached: the connection ended" {
			t.Errorf("%v: %v, final %v", err, why, final)
		}
	}
}

// TestExplainDialTimeout: a dial that took too long is not the deadline of a caller, who may have none.
func TestExplainDialTimeout(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	_, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
	if why, final := Explain(err); final || errors.Is(why, context.DeadlineExceeded) ||
		!strings.Contains(why.Error(), "i/o timeout") {
		t.Errorf("%v, final %v", why, final)
	}
}
