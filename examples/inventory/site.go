package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// closeTimeout bounds how long a site waits for requests that are under way when it closes.
const closeTimeout = 5 * time.Second

// A site answers HTTP requests on an address.
type site struct {
	url    string
	server *http.Server
	ended  chan error // what ended it, once
}

// openSite listens on addr and answers there. Port 0 is any free port.
func openSite(addr string, handler http.Handler) (*site, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &site{
		url:    "http://" + listener.Addr().String(),
		server: &http.Server{Handler: handler, ReadHeaderTimeout: closeTimeout},
		ended:  make(chan error, 1),
	}
	go func() { s.ended <- s.server.Serve(listener) }()
	return s, nil
}

// run waits until ctx is done, or the site fails, and closes it.
func (s *site) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return s.close()
	case err := <-s.ended:
		return errors.Join(err, s.server.Close())
	}
}

// close lets the requests that are under way finish, and takes no more.
func (s *site) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("requests were cut off: %w", errors.Join(err, s.server.Close()))
	}
	<-s.ended
	return err
}

// newHTTPClient makes a client that keeps a connection for each of so many concurrent requests. Whoever makes
// one closes its idle connections: a server that shuts down would wait for them.
func newHTTPClient(concurrent int) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns = 0 // no limit beside the one per host
	transport.MaxIdleConnsPerHost = concurrent
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}
