package etcdstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"

	"google.golang.org/grpc"
)

// A valve lies in the way of what etcd sends over streams of watches. Answers and events share a connection, so that a
// proxy cannot tell them apart.
type valve struct {
	mu      sync.Mutex
	changed chan struct{} // closed when something below changes
	held    int
	drops   bool
}

func newValve() *valve { return &valve{changed: make(chan struct{})} }

// set changes the valve.
func (v *valve) set(change func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change()
	close(v.changed)
	v.changed = make(chan struct{})
}

// hold keeps everything back until release.
func (v *valve) hold() (release func()) {
	v.set(func() { v.held++ })
	return sync.OnceFunc(func() { v.set(func() { v.held-- }) })
}

func (v *valve) drop(on bool) { v.set(func() { v.drops = on }) }

// intercept is for grpc.WithChainStreamInterceptor.
func (v *valve) intercept(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, options...)
	if err != nil || !strings.HasSuffix(method, "/Watch") {
		return stream, err
	}
	return &valved{ClientStream: stream, valve: v}, nil
}

// A valved stream is one of watches.
type valved struct {
	grpc.ClientStream
	*valve
	lost bool
}

// RecvMsg receives what the valve lets through. A stream that has lost something ends when the valve is open again, as
// one over TCP would.
func (s *valved) RecvMsg(m any) error {
	for {
		if err := s.ClientStream.RecvMsg(m); err != nil {
			return err
		}
		for {
			s.mu.Lock()
			held, drops, changed := s.held > 0, s.drops, s.changed
			s.mu.Unlock()
			if s.lost && !drops {
				return errors.New("the stream has lost something")
			}
			if drops {
				s.lost = true
				break
			}
			if !held {
				return nil
			}
			select {
			case <-changed:
			case <-s.Context().Done():
				return s.Context().Err()
			}
		}
	}
}
