package gocronlock

import (
	"context"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/internal/leasectx"
)

// A Locker is a [gocron.Locker]: each run of a job holds the lock that has the job's name. It does not wait for a lock
// that is taken. It can be used by several schedulers of a process.
type Locker struct {
	locks   *holdfast.Client
	options []holdfast.Option

	mu   sync.Mutex
	runs map[<-chan struct{}]*run // by Done of the job's context
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker for [gocron.WithDistributedLocker] or [gocron.WithDistributedJobLocker]. The options are
// those of its locks: holdfast.WithAtLeast should be among them, as the package's documentation explains. A wrong
// option is an error of Lock.
func NewLocker(locks *holdfast.Client, options ...holdfast.Option) *Locker {
	return &Locker{locks: locks, options: options, runs: map[<-chan struct{}]*run{}}
}

// Lock acquires the lock of this name if it is free. gocron calls it. The errors are those of holdfast.Mutex.TryLock.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.locks.Mutex(key, l.options...).TryLock(ctx)
	if err != nil {
		return nil, err
	}
	r := &run{locker: l, lease: lease, job: ctx.Done()}
	r.ctx, r.cancel = leasectx.Join(ctx, lease)
	l.mu.Lock()
	l.runs[r.job] = r
	l.mu.Unlock()
	return r, nil
}

// Context returns the context of a run, for a job that runs under this Locker. The argument is the context that gocron
// has passed to the job, or one with the same cancellation. The result ends with it, and when the lease is lost; its
// cause is then a holdfast.ErrLost. holdfast.TokenFrom finds the fencing token in it.
//
// It reports false, and returns the argument, if no run with that context holds a lock of this Locker: the job was
// given another context, or runs without a Locker.
func (l *Locker) Context(job context.Context) (context.Context, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[job.Done()]; r != nil {
		return r.ctx, true
	}
	return job, false
}

// A run is one run of a job, and its lock.
type run struct {
	locker *Locker
	lease  *holdfast.Lease
	job    <-chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
}

// Unlock releases the lock. gocron calls it when the job has returned.
func (r *run) Unlock(ctx context.Context) error {
	l := r.locker
	l.mu.Lock()
	if l.runs[r.job] == r { // otherwise this lease was lost, and the job was started again
		delete(l.runs, r.job)
	}
	l.mu.Unlock()
	r.cancel()
	return r.lease.Unlock(ctx)
}
