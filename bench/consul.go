package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// A consulClient is what a process has of Consul.
type consulClient struct {
	*api.Client
	ttl time.Duration
	end func() // ends all requests that are under way: a lock of package api knows no context
}

// openConsul makes a client of the first agent. It keeps as many idle connections as it ever needs at once: by itself
// package api keeps three on a machine with two processors, and opens the others again and again.
func openConsul(_ context.Context, where string, ttl time.Duration) (*consulClient, error) {
	first, _, _ := strings.Cut(where, ",")
	config := api.DefaultConfig()
	config.Address = first
	transport := config.Transport
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 256
	ctx, cancel := context.WithCancel(context.Background())
	config.HttpClient = &http.Client{Transport: endable{transport, ctx}}
	client, err := api.NewClient(config)
	if err != nil {
		cancel()
		return nil, err
	}
	return &consulClient{client, ttl, func() {
		cancel()
		transport.CloseIdleConnections()
	}}, nil
}

// endable is a transport whose requests end with a context.
type endable struct {
	http.RoundTripper
	ctx context.Context //nolint:containedctx // it is that of all requests
}

func (e endable) RoundTrip(r *http.Request) (*http.Response, error) {
	return e.RoundTripper.RoundTrip(r.WithContext(e.ctx))
}

func (c *consulClient) Close() error {
	c.end()
	return nil
}

// lock takes a lock of package api, which checks only between two requests whether it was given up.
func (c *consulClient) lock(ctx context.Context, options *api.LockOptions) (unlock func() error, err error) {
	lock, err := c.LockOpts(options)
	if err != nil {
		return nil, err
	}
	locked := make(chan error, 1)
	go func() {
		lost, err := lock.Lock(ctx.Done())
		if err == nil && lost == nil {
			err = ctx.Err()
		}
		locked <- err
	}()
	select {
	case err := <-locked:
		return lock.Unlock, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// shortDelay is for how long Consul keeps others from a key whose session ended while it had it: the least that package
// api can say. With the default of 15 seconds, what a worker still has at the end would stop the next measurement.
const shortDelay = time.Millisecond

// consulLock is the lock of package api as it comes: each lock begins a session, and ends it.
type consulLock struct{ *consulClient }

var openConsulLock = opening(openConsul, func(c *consulClient) locker { return consulLock{c} })

func (l consulLock) Acquire(ctx context.Context, name string) (lease, error) {
	unlock, err := l.lock(ctx, &api.LockOptions{Key: name, SessionTTL: l.ttl.String(), LockDelay: shortDelay})
	return leaseFunc(unlock), err
}

// A consulSession is a client with a session that is renewed until it is closed.
type consulSession struct {
	*consulClient
	id      string
	done    chan struct{}
	renewal sync.WaitGroup
}

func openConsulSession(ctx context.Context, where string, ttl time.Duration) (*consulSession, error) {
	client, err := openConsul(ctx, where, ttl)
	if err != nil {
		return nil, err
	}
	s := &consulSession{consulClient: client, done: make(chan struct{})}
	s.id, _, err = client.Session().CreateNoChecks(&api.SessionEntry{TTL: ttl.String(), LockDelay: shortDelay}, nil)
	if err != nil {
		client.end()
		return nil, err
	}
	s.renewal.Go(func() { _ = s.Session().RenewPeriodic(ttl.String(), s.id, nil, s.done) }) // locks fail if it does
	return s, nil
}

// Close ends the session.
func (s *consulSession) Close() error {
	close(s.done)
	s.renewal.Wait()
	return s.consulClient.Close()
}

// onConsul makes the open function of a contestant that needs a session.
func onConsul(wrap func(*consulSession) locker) opener { return opening(openConsulSession, wrap) }

// consulRaw is the floor: a key that is acquired by the session, and its deletion. It does not wait.
type consulRaw struct{ *consulSession }

func newConsulRaw(s *consulSession) locker { return consulRaw{s} }

func (l consulRaw) Acquire(_ context.Context, name string) (lease, error) {
	kv := l.KV()
	if _, _, err := kv.Acquire(&api.KVPair{Key: name, Session: l.id}, nil); err != nil {
		return nil, err
	}
	return leaseFunc(func() error {
		_, err := kv.Delete(name, nil)
		return err
	}), nil
}

// consulSessionLock is the lock of package api with one session for all locks. A lock is held if its key has the
// session, so goroutines that want one name take turns before they ask Consul.
type consulSessionLock struct {
	*consulSession
	gates
}

func newConsulSessionLock(s *consulSession) locker { return &consulSessionLock{consulSession: s} }

func (l *consulSessionLock) Acquire(ctx context.Context, name string) (lease, error) {
	return l.hold(ctx, name, func() (func() error, error) {
		return l.lock(ctx, &api.LockOptions{Key: name, Session: l.id})
	})
}
