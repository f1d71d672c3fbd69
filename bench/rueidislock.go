package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// openRueidislock is as in rueidislock's README for one server of Redis 7.0.5 or later.
func openRueidislock(_ context.Context, where string, ttl time.Duration) (locker, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{where}},
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    ttl,
		// How long a try may take before the next key is tried. There is no next key here. With the 20 ms that it is by
		// default, a try that a busy machine holds up may then wait for a notice that does not come.
		TryNextAfter: time.Second,
	})
	if err != nil {
		return nil, err
	}
	return rueidisLocker{l}, nil
}

type rueidisLocker struct{ locker rueidislock.Locker }

func (l rueidisLocker) Acquire(ctx context.Context, name string) (lease, error) {
	held, cancel, err := l.locker.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return rueidisLease{held, cancel}, nil
}

func (l rueidisLocker) Close() error {
	l.locker.Close()
	return nil
}

type rueidisLease struct {
	held   context.Context
	cancel context.CancelFunc
}

// Release returns when the server has answered, as that of the others does.
func (l rueidisLease) Release() error {
	l.cancel()
	return nil
}

func (l rueidisLease) Err() error { return l.held.Err() }
