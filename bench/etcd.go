package main

import (
	"context"
	"errors"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// An etcdSession is what a process has of etcd: one client, and one lease that is kept alive.
type etcdSession struct{ *concurrency.Session }

// openEtcd makes a client and begins a session.
func openEtcd(ctx context.Context, where string, ttl time.Duration) (s etcdSession, err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(where, ","), Context: ctx})
	if err != nil {
		return s, err
	}
	seconds := (ttl + time.Second - 1) / time.Second // etcd counts in whole ones
	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(seconds)))
	if err != nil {
		return s, errors.Join(err, client.Close())
	}
	return etcdSession{session}, nil
}

// onEtcd makes the open function of a contestant that needs a session.
func onEtcd(wrap func(etcdSession) locker) opener { return opening(openEtcd, wrap) }

func (s etcdSession) Close() error { return errors.Join(s.Session.Close(), s.Client().Close()) }

// etcdRaw is the floor: a Put under the lease, and a Delete. It keeps nobody out.
type etcdRaw struct{ etcdSession }

func newEtcdRaw(s etcdSession) locker { return etcdRaw{s} }

func (l etcdRaw) Acquire(ctx context.Context, name string) (lease, error) {
	if _, err := l.Client().Put(ctx, name, "", clientv3.WithLease(l.Lease())); err != nil {
		return nil, err
	}
	return leaseFunc(func() error {
		_, err := l.Client().Delete(context.Background(), name)
		return err
	}), nil
}

// etcdRecipe is the lock that etcd's own client comes with. A Mutex keeps the key of its last Lock, so each lock has a
// new one. That key is made of the name and the session: two Mutexes of one session and name have the same, and would
// both be locked. So goroutines that want one name take turns before they ask etcd.
type etcdRecipe struct {
	etcdSession
	gates
}

func newEtcdRecipe(s etcdSession) locker { return &etcdRecipe{etcdSession: s} }

func (l *etcdRecipe) Acquire(ctx context.Context, name string) (lease, error) {
	return l.hold(ctx, name, func() (func() error, error) {
		mutex := concurrency.NewMutex(l.Session, name)
		return func() error { return mutex.Unlock(context.Background()) }, mutex.Lock(ctx)
	})
}
