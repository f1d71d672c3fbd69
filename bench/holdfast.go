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
func holdfastOn(scheme string, options ...holdfast.Option) opener {
	return func(ctx context.Context, where string, ttl time.Duration) (locker, error) {
		options := slices.Concat(options, []holdfast.Option{holdfast.WithTTL(ttl)})
		client, err := holdfast.Open(ctx, scheme+where, options...)
		if err != nil {
			return nil, err
		}
		return holdfastLocker{client}, nil
	}
}

// holdfastSession opens Holdfast on a store where the ttl is that of the client's session. more follows it in the URL.
func holdfastSession(scheme, more string, options ...holdfast.Option) opener {
	return func(ctx context.Context, where string, ttl time.Duration) (locker, error) {
		return holdfastOn(scheme, options...)(ctx, fmt.Sprintf("%s?ttl=%v%s", where, ttl, more), ttl)
	}
}

// openHoldfastZooKeeper opens Holdfast on ZooKeeper, in a layout.
func openHoldfastZooKeeper(layout string, options ...holdfast.Option) opener {
	return holdfastSession("zk://", fmt.Sprintf("&tick=%v&layout=%s", zooKeeperTick, layout), options...)
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
func openHoldfastRedlock(tokens string) opener {
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
