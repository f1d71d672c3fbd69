package zkstore

import (
	"io"
	"net"
	"testing"
	"time"

	testservers "github.com/holdfast-go/holdfast/internal/servers"
)

// checkLeastTimeout examines a server, which must grant a shortest session of two ticks of 200 ms.
func checkLeastTimeout(t *testing.T, address string) {
	t.Helper()
	s := &Store{servers: &servers{settings: &settings{}}}
	if least, err := s.leastTimeout(t.Context(), address); err != nil || least != 400*time.Millisecond {
		t.Errorf("the shortest session is %v, %v", least, err)
	}
}

func TestLeastTimeout(t *testing.T) {
	t.Parallel()
	checkLeastTimeout(t, testservers.ZooKeeper(t).Addr())
}

// doctor begins a session to see how long it lasts, and ends it. The server gets the request that ends it, and then the
// end of the connection: if it were reset instead, the request could be lost.
func TestLeastTimeoutEndsSession(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() { served <- serveSession(listener) }()
	checkLeastTimeout(t, listener.Addr().String())
	if err := <-served; err != nil {
		t.Errorf("the server: %v", err)
	}
}

// serveSession is a server that grants one session of 400 ms, and disconnects when its client has ended it.
func serveSession(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	const request, closeSession = 4 + 44, 4 + 8
	if _, err := io.ReadFull(conn, make([]byte, request)); err != nil {
		return err
	}
	// Its length, the protocol's version, the timeout, the session, a password, and a flag.
	granted := make([]byte, 4+37)
	granted[3], granted[10], granted[11], granted[23] = 37, 400>>8, 400&0xff, 16
	if _, err := conn.Write(granted); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, make([]byte, closeSession)); err != nil {
		return err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn) // until the client disconnects
	return err
}
