package servers

import (
	"net"
	"sync"
)

// An acceptor serves connections, each in a goroutine.
type acceptor struct {
	net.Listener
	running sync.WaitGroup
}

// acceptAt listens at an address. It calls serve for each connection, and closes the connection after that.
func acceptAt(address string, serve func(net.Conn)) (*acceptor, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	a := &acceptor{Listener: listener}
	a.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			a.running.Go(func() {
				defer conn.Close() //nolint:errcheck // it was served
				serve(conn)
			})
		}
	})
	return a, nil
}

// close ends the listener, and waits until all connections have ended.
func (a *acceptor) close() error {
	err := a.Close()
	a.running.Wait()
	return err
}
