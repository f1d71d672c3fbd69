package testkit_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// No server can take the address of Nobody before the test ends, and clients are refused there.
func TestNobodyListens(t *testing.T) {
	addr := testkit.Nobody(t)
	if l, err := net.Listen("tcp", addr); err == nil {
		l.Close()
		t.Error("a server could listen there")
	}
	if conn, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a client has the error %v and the connection %v", err, conn)
	}
}
