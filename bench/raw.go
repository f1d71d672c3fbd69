package main

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// rawLocker is the floor: SET NX PX and DEL, each one command, with nothing around them. It is not a lock that anybody
// should use: whoever comes too late deletes another's.
type rawLocker struct {
	client rueidis.Client
	ttl    time.Duration
}

// openRaw opens it on one server, or on the nodes of a cluster.
func openRaw(_ context.Context, where string, ttl time.Duration) (locker, error) {
	return openRawWith(rueidis.ClientOption{InitAddress: strings.Split(where, ",")}, ttl)
}

// openRawSentinel opens it on the master that sentinels name.
func openRawSentinel(_ context.Context, where string, ttl time.Duration) (locker, error) {
	sentinels, master, _ := strings.Cut(where, "/")
	return openRawWith(rueidis.ClientOption{
		InitAddress: strings.Split(sentinels, ","),
		Sentinel:    rueidis.SentinelOption{MasterSet: master},
	}, ttl)
}

func openRawWith(options rueidis.ClientOption, ttl time.Duration) (locker, error) {
	client, err := rueidis.NewClient(options)
	if err != nil {
		return nil, err
	}
	return &rawLocker{client, ttl}, nil
}

func (l *rawLocker) Acquire(ctx context.Context, name string) (lease, error) {
	for {
		err := l.client.Do(ctx, l.client.B().Set().Key(name).Value("1").Nx().Px(l.ttl).Build()).Error()
		if err == nil {
			return leaseFunc(func() error {
				return l.client.Do(context.Background(), l.client.B().Del().Key(name).Build()).Error()
			}), nil
		}
		if !rueidis.IsRedisNil(err) {
			return nil, err
		}
		if err := sleep(ctx, eager); err != nil {
			return nil, err
		}
	}
}

func (l *rawLocker) Close() error {
	l.client.Close()
	return nil
}

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
