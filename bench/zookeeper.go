package main

import (
	"context"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// A zooKeeperSession is what a process has of ZooKeeper.
type zooKeeperSession struct {
	*zk.Conn
	events <-chan zk.Event
}

// openZooKeeper begins a session.
func openZooKeeper(ctx context.Context, where string, ttl time.Duration) (s zooKeeperSession, err error) {
	conn, events, err := zk.Connect(strings.Split(where, ","), ttl, zk.WithLogInfo(false))
	if err != nil {
		return s, err
	}
	s = zooKeeperSession{conn, events}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return s, nil
			}
		case <-ctx.Done():
			_ = s.Close()
			return s, ctx.Err()
		}
	}
}

// onZooKeeper makes the open function of a contestant that needs a session.
func onZooKeeper(wrap func(zooKeeperSession) locker) opener { return opening(openZooKeeper, wrap) }

// Close ends the session.
func (s zooKeeperSession) Close() error { //nolint:unparam // a locker is closed so
	s.Conn.Close()
	for range s.events { // until it has ended
	}
	return nil
}

// everybody may do anything with the nodes of the bench.
var everybody = zk.WorldACL(zk.PermAll)

// zooKeeperRaw is the floor: a node that goes with the session, and its deletion. It does not wait.
type zooKeeperRaw struct{ zooKeeperSession }

func newZooKeeperRaw(s zooKeeperSession) locker { return zooKeeperRaw{s} }

func (l zooKeeperRaw) Acquire(_ context.Context, name string) (lease, error) {
	path, err := l.Create("/"+name, nil, zk.FlagEphemeral, everybody)
	if err != nil {
		return nil, err
	}
	return leaseFunc(func() error { return l.Delete(path, -1) }), nil
}

// zooKeeperLock is the lock that the Go client comes with. Its Lock knows no context: one that is given up waits on
// until the session ends.
type zooKeeperLock struct{ zooKeeperSession }

func newZooKeeperLock(s zooKeeperSession) locker { return zooKeeperLock{s} }

func (l zooKeeperLock) Acquire(ctx context.Context, name string) (lease, error) {
	lock := zk.NewLock(l.Conn, "/"+name, everybody)
	locked := make(chan error, 1)
	go func() { locked <- lock.Lock() }()
	select {
	case err := <-locked:
		return leaseFunc(lock.Unlock), err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
