package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/consulstore"
	_ "github.com/holdfast-go/holdfast/etcdstore"
	_ "github.com/holdfast-go/holdfast/redisstore"
	_ "github.com/holdfast-go/holdfast/redlock"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite"
	_ "github.com/holdfast-go/holdfast/zkstore"
)

// strict is Holdfast without hand-over inside a process: the store's line alone decides.
var strict = holdfast.WithHandOver(0, 0)

// holdfastOn opens Holdfast on a store, by a URL that begins so and ends with the site's address.
func holdfastOn(
	scheme string,
	options ...holdfast.Option,
) func(context.Context, string, time.Duration) (locker, error) {
	return func(ctx context.Context, where string, ttl time.Duration) (locker, error) {
		client, err := holdfast.Open(
			ctx,
			scheme+where,
			slices.Concat(options, []holdfast.Option{holdfast.WithTTL(ttl)})...)
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

// openHoldfastConsul opens Holdfast on Consul. There the ttl is that of the client's session.
func openHoldfastConsul(ctx context.Context, where string, ttl time.Duration) (locker, error) {
	return holdfastOn("consul://")(ctx, where+"?ttl="+ttl.String(), ttl)
}

// openHoldfastZooKeeper opens Holdfast on ZooKeeper, in a layout. There the ttl is that of the client's session.
func openHoldfastZooKeeper(
	layout string,
	options ...holdfast.Option,
) func(context.Context, string, time.Duration) (locker, error) {
	return func(ctx context.Context, where string, ttl time.Duration) (locker, error) {
		where = fmt.Sprintf("%s?ttl=%v&tick=%v&layout=%s", where, ttl, zooKeeperTick, layout)
		return holdfastOn("zk://", options...)(ctx, where, ttl)
	}
}

// openHoldfastReplicas opens Holdfast so that a lock counts only when all replicas have acknowledged it.
func openHoldfastReplicas(ctx context.Context, where string, ttl time.Duration) (locker, error) {
	return holdfastOn("redis+sentinel://")(ctx, fmt.Sprintf("%s?wait-replicas=%d", where, sentinelReplicas), ttl)
}

// openHoldfastMaster opens Holdfast on the first of several masters alone.
func openHoldfastMaster(ctx context.Context, where string, ttl time.Duration) (locker, error) {
	first, _, _ := strings.Cut(where, ",")
	return holdfastOn("redis://")(ctx, first, ttl)
}

// openHoldfastRedlock opens Holdfast on a majority of masters. A node has as long to answer as redsync gives it: here
// all of them share one machine with all workers.
func openHoldfastRedlock(tokens string) func(context.Context, string, time.Duration) (locker, error) {
	return func(ctx context.Context, where string, ttl time.Duration) (locker, error) {
		return holdfastOn("redlock://")(ctx, fmt.Sprintf("%s?tokens=%s&node-timeout=%v", where, tokens, ttl/20), ttl)
	}
}

// openHoldfastUnsaved opens Holdfast so that a majority need not have a token before the lock is held. Then tokens are
// not for fences, and are not looked at.
func openHoldfastUnsaved(ctx context.Context, where string, ttl time.Duration) (locker, error) {
	l, err := openHoldfastRedlock("unsaved")(ctx, where, ttl)
	return unfencedLocker{l}, err
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

type unfencedLocker struct{ locker }

func (l unfencedLocker) Acquire(ctx context.Context, name string) (lease, error) {
	held, err := l.locker.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return unfencedLease{held.(keptLease)}, nil
}

// An unfencedLease is only what its interface has.
type unfencedLease struct{ keptLease }
