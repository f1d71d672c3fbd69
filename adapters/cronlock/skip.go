package cronlock

import (
	"context"
	"errors"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/internal/leasectx"
)

// A Skip holds a mutex while a job runs, and skips a run if the mutex is held elsewhere, or by another run in this
// process. It does not wait.
type Skip struct {
	mutex *holdfast.Mutex
	*config
}

// NewSkip returns a Skip. For a job that may take less time than the clocks of the machines differ, the mutex needs the
// option holdfast.WithAtLeast. The error is that of a wrong option.
func NewSkip(mutex *holdfast.Mutex, options ...Option) (*Skip, error) {
	c, err := configure(options)
	if err != nil {
		return nil, err
	}
	return &Skip{mutex, c}, nil
}

// Job returns a job that runs fn under the mutex. The context of fn ends with ctx, and when the lease is lost;
// holdfast.TokenFrom finds the fencing token in it. fn should return then: another machine may run the job.
func (s *Skip) Job(ctx context.Context, fn func(ctx context.Context) error) cron.Job {
	return cron.FuncJob(func() { s.run(ctx, fn) })
}

// Wrap returns a job that runs another one under the mutex. It is a cron.JobWrapper. A job without a context cannot see
// that the lease is lost: that is logged when it has returned.
func (s *Skip) Wrap(job cron.Job) cron.Job {
	return s.Job(context.Background(), func(context.Context) error { job.Run(); return nil })
}

// run runs fn if the mutex is free.
func (s *Skip) run(ctx context.Context, fn func(ctx context.Context) error) {
	lease, err := s.mutex.TryLock(ctx)
	switch {
	case errors.Is(err, holdfast.ErrLocked):
		s.log().DebugContext(ctx, "holdfast: job skipped, since its lock is taken", "err", err)
		return
	case err != nil:
		s.log().ErrorContext(ctx, "holdfast: job not run, since its lock could not be acquired", "err", err)
		return
	}
	joined, cancel := leasectx.Join(ctx, lease)
	defer func() {
		cancel()
		if err := lease.Unlock(ctx); errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrClosed) {
			s.log().ErrorContext(ctx, "holdfast: lock lost while the job ran", "name", lease.Name(), "err", err)
		}
	}()
	if err := fn(joined); err != nil {
		s.log().ErrorContext(ctx, "holdfast: job failed", "name", lease.Name(), "err", err)
	}
}
