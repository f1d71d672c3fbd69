package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/etcdstore"
	_ "github.com/holdfast-go/holdfast/redisstore"
	_ "github.com/holdfast-go/holdfast/redlock"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite"
)

// strict is Holdfast without hand-over inside a process: the store's line alone decides.
var strict = holdfast.HandOver(0, 0)

// holdfastOn opens Holdfast on a store, by a URL that begins so and ends with the site's address.
func holdfastOn(scheme string, options ...holdfast.Option) func(context.Context, string, time.Duration) (locker, error) {
	return func(ctx context.Context, where string, ttl time.Duration) (locker, error) {
		client, err := holdfast.Open(ctx, scheme+where, slices.Concat(options, []holdfast.Option{holdfast.TTL(ttl)})...)
		if err != nil {
			return nil, err
		}
		return holdfastLocker{client}, nil
	}
}

// openHoldfastEtcd opens Holdfast on etcd. There the ttl is that of the client's session.
func openHoldfastEtcd(ctx context.Context, where string, ttl time.Duration) (locker, error) {
	return holdfastOn("etcd://")(ctx, where+"?ttl="+ttl.String(), ttl)
}

// openHoldfastReplicas opens Holdfast so that a lock counts only when all replicas have acknowledged it.
func openHoldfastReplicas(ctx context.Context, where string, ttl time.Duration) (locker, error) {
	return holdfastOn("redis+sentinel://")(ctx, fmt.Sprintf("%s?wait-replicas=%d", where, groupReplicas), ttl)
}

type holdfastLocker struct{ *holdfast.Client }

func (l holdfastLocker) Acquire(ctx context.Context, name string) (lease, error) {
	held, err := l.Mutex(name).Lock(ctx)
	if err != nil {
		return nil, err
	}
	return holdfastLease{held}, nil
}

type holdfastLease struct{ *holdfast.Lease }

func (l holdfastLease) Release() error { return l.Unlock(context.Background()) }

func (l holdfastLease) Fence() uint64 { return uint64(l.Token()) }
