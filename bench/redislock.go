package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislockExample is how long redislock's example of waiting for a lock waits between two tries.
const redislockExample = 100 * time.Millisecond

func openRedislock(retry time.Duration) opener {
	return func(_ context.Context, where string, ttl time.Duration) (locker, error) {
		client := redis.NewClient(&redis.Options{Addr: where})
		options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(retry)}
		return &redislockLocker{client, redislock.New(client), options, ttl}, nil
	}
}

type redislockLocker struct {
	redis   *redis.Client
	client  *redislock.Client
	options *redislock.Options
	ttl     time.Duration
}

func (l *redislockLocker) Acquire(ctx context.Context, name string) (lease, error) {
	lock, err := l.client.Obtain(ctx, name, l.ttl, l.options)
	if err != nil {
		return nil, err
	}
	return leaseFunc(func() error { return lock.Release(context.Background()) }), nil
}

func (l *redislockLocker) Close() error { return l.redis.Close() }
