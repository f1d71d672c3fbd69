package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// eagerRedsync makes redsync try again every millisecond, rather than every 50 to 250.
var eagerRedsync = redsync.WithRetryDelay(eager)

// failFast makes redsync return when a majority has answered, rather than all.
var failFast = redsync.WithFailFast(true)

// A redsyncClient is one of the Redis clients that redsync can stand on.
type redsyncClient func(where string) (pool redsyncredis.Pool, closes func() error, err error)

// redsyncGoRedis is as in redsync's README.
func redsyncGoRedis(where string) (redsyncredis.Pool, func() error, error) {
	client := redis.NewClient(&redis.Options{Addr: where})
	return goredis.NewPool(client), client.Close, nil
}

// redsyncRueidis gives redsync the pipelining that Holdfast and the floor have.
func redsyncRueidis(where string) (redsyncredis.Pool, func() error, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{where}})
	if err != nil {
		return nil, nil, err
	}
	return rueidisPool{client}, func() error { client.Close(); return nil }, nil
}

// openRedsync opens redsync on one server, or on a majority of several.
func openRedsync(on redsyncClient, options ...redsync.Option) opener {
	return func(_ context.Context, where string, ttl time.Duration) (locker, error) {
		// By default it gives up after 32 tries. Here the context says how long it waits.
		l := &redsyncLocker{
			options: slices.Concat(options, []redsync.Option{redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt)}),
		}
		var pools []redsyncredis.Pool
		for addr := range strings.SplitSeq(where, ",") {
			pool, closes, err := on(addr)
			if err != nil {
				return nil, errors.Join(err, l.Close())
			}
			pools, l.closes = append(pools, pool), append(l.closes, closes)
		}
		l.sync = redsync.New(pools...)
		return l, nil
	}
}

type redsyncLocker struct {
	sync    *redsync.Redsync
	options []redsync.Option
	closes  []func() error
}

func (l *redsyncLocker) Acquire(ctx context.Context, name string) (lease, error) {
	mutex := l.sync.NewMutex(name, l.options...)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncLease{mutex}, nil
}

func (l *redsyncLocker) Close() (err error) {
	for _, closes := range l.closes {
		err = errors.Join(err, closes())
	}
	return err
}

type redsyncLease struct{ *redsync.Mutex }

func (l redsyncLease) Release() error {
	if ok, err := l.Unlock(); err != nil || !ok {
		return errors.Join(errors.New("redsync: not unlocked"), err)
	}
	return nil
}

// rueidisPool lets redsync use rueidis. It has only what redsync calls to lock and unlock.
type rueidisPool struct{ client rueidis.Client }

func (p rueidisPool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	return rueidisConn{client: p.client, ctx: ctx}, nil
}

type rueidisConn struct {
	redsyncredis.Conn // nil: what is not below is not called
	client            rueidis.Client
	ctx               context.Context
}

func (c rueidisConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	err := c.client.Do(c.ctx, c.client.B().Set().Key(name).Value(value).Nx().Px(expiry).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

func (c rueidisConn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	var texts []string
	for _, v := range keysAndArgs {
		texts = append(texts, fmt.Sprint(v))
	}
	keys, args := texts[:script.KeyCount], texts[script.KeyCount:]
	b, n := c.client.B(), int64(script.KeyCount)
	answer := c.client.Do(c.ctx, b.Evalsha().Sha1(script.Hash).Numkeys(n).Key(keys...).Arg(args...).Build())
	if e, ok := rueidis.IsRedisErr(answer.Error()); ok && e.IsNoScript() {
		answer = c.client.Do(c.ctx, b.Eval().Script(script.Src).Numkeys(n).Key(keys...).Arg(args...).Build())
	}
	return answer.AsInt64()
}

func (c rueidisConn) Close() error { return nil }
