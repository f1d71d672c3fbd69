package gocronlock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/gocronlock"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
)

// A record is what happened to the job on all machines.
type record struct {
	ran     atomic.Int32
	mu      sync.Mutex
	skipped []error
}

// listen records the errors of the Locker.
func (r *record) listen() gocron.JobOption {
	return gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.skipped = append(r.skipped, err)
	}))
}

// skips returns the errors of the Locker.
func (r *record) skips() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped
}

// with makes the Locker of a machine with these options.
func with(options ...holdfast.Option) func(*holdfast.Client) gocron.SchedulerOption {
	return func(locks *holdfast.Client) gocron.SchedulerOption {
		return gocron.WithDistributedLocker(gocronlock.NewLocker(locks, options...))
	}
}

// TestClocksThatDiffer: two machines run a job that takes no time, and the clock of the second is late. When it is time
// there, the first has finished. With a plain lock the job runs twice for each minute; with WithAtLeast once.
func TestClocksThatDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		options []holdfast.Option
		ran     int32
		skipped int
	}{
		"plain lock": {nil, 2, 0},
		"at least":   {[]holdfast.Option{holdfast.WithAtLeast(time.Hour)}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := memstore.NewServer()
			first, second := newMachine(t, server, with(c.options...)), newMachine(t, server, with(c.options...))
			var seen record
			for _, m := range []*machine{first, second} {
				m.everyMinute(func() { seen.ran.Add(1) }, seen.listen())
			}
			first.passMinute()
			testkit.Await(t, "the first machine runs the job", func() bool { return seen.ran.Load() == 1 })
			first.leave()
			second.passMinute()
			testkit.Await(t, "the second machine has run or skipped the job", func() bool {
				return int(seen.ran.Load())+len(seen.skips()) == 2
			})
			if seen.ran.Load() != c.ran || len(seen.skips()) != c.skipped {
				t.Errorf("it ran %d times and was skipped %d times, want %d and %d", seen.ran.Load(),
					len(seen.skips()), c.ran, c.skipped)
			}
			for _, err := range seen.skips() {
				if !errors.Is(err, holdfast.ErrLocked) {
					t.Error(err)
				}
			}
		})
	}
}

// TestNextRun: WithAtLeast does not keep a later run from its turn, on any machine.
func TestNextRun(t *testing.T) {
	server := memstore.NewServer()
	share := with(holdfast.WithAtLeast(time.Millisecond))
	first, second := newMachine(t, server, share), newMachine(t, server, share)
	var seen record
	for i, m := range []*machine{first, second, first} {
		if i < 2 {
			m.everyMinute(func() { seen.ran.Add(1) }, seen.listen())
		}
		testkit.Await(t, "the lock is free", func() bool {
			queue, err := m.locks.Inspect(t.Context(), "report")
			testkit.Must(t, err)
			return len(queue.Entries) == 0
		})
		m.passMinute()
		testkit.Await(t, "the job ran", func() bool { return int(seen.ran.Load()) == i+1 })
	}
	if len(seen.skips()) > 0 {
		t.Error(seen.skips())
	}
}

// TestTakenElsewhere: a machine skips the job while it runs on another one, and its next run is on schedule.
func TestTakenElsewhere(t *testing.T) {
	server := memstore.NewServer()
	first, second := newMachine(t, server, with()), newMachine(t, server, with())
	var seen record
	started, finish := make(chan struct{}), make(chan struct{})
	first.everyMinute(func() { close(started); <-finish })
	first.passMinute()
	<-started
	second.everyMinute(func() { seen.ran.Add(1) }, seen.listen())
	second.passMinute()
	testkit.Await(t, "the second machine skips the job", func() bool { return len(seen.skips()) == 1 })
	if err := seen.skips()[0]; !errors.Is(err, holdfast.ErrLocked) || seen.ran.Load() != 0 {
		t.Errorf("%v, and it ran %d times", err, seen.ran.Load())
	}
	close(finish)
	testkit.Await(t, "the lock is free", func() bool {
		queue, err := second.locks.Inspect(t.Context(), "report")
		testkit.Must(t, err)
		return len(queue.Holders()) == 0
	})
	second.passMinute()
	testkit.Await(t, "the second machine runs the job", func() bool { return seen.ran.Load() == 1 })
}

// TestLostWhileRunning: a job whose lease is lost learns it from the context of its run, and not from gocron's.
func TestLostWhileRunning(t *testing.T) {
	server := memstore.NewServer()
	locks := holdfast.New(server.Connect())
	defer locks.Close()
	locker := gocronlock.NewLocker(locks)
	m := newMachine(t, server, func(*holdfast.Client) gocron.SchedulerOption {
		return gocron.WithDistributedLocker(locker)
	})
	type end struct {
		job   error
		cause error
		token bool
	}
	ends := make(chan end, 1)
	m.everyMinute(func(job context.Context) {
		type key struct{}
		ctx, ok := locker.Context(context.WithValue(job, key{}, "a job may derive a context before it asks"))
		_, hasToken := holdfast.TokenFrom(ctx)
		server.Revoke("report")
		<-ctx.Done()
		ends <- end{job.Err(), context.Cause(ctx), ok && hasToken}
	})
	m.passMinute()
	if got := <-ends; got.job != nil || !errors.Is(got.cause, holdfast.ErrLost) || !got.token {
		t.Errorf("%+v", got)
	}
	if ctx, ok := locker.Context(t.Context()); ok || ctx != t.Context() {
		t.Error("a context that is not a job's has a run")
	}
}

// TestShutdown: the context of a run ends with the scheduler, and the lock is released.
func TestShutdown(t *testing.T) {
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	locker := gocronlock.NewLocker(locks)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	testkit.Must(t, err)
	started, cause := make(chan struct{}), make(chan error, 1)
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(
		func(job context.Context) {
			ctx, _ := locker.Context(job)
			close(started)
			<-ctx.Done()
			cause <- context.Cause(ctx)
		}), gocron.WithName("report"))
	testkit.Must(t, err)
	scheduler.Start()
	<-started
	testkit.Check(t, scheduler.Shutdown())
	if err := <-cause; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	testkit.Await(t, "the lock is free", func() bool {
		queue, err := locks.Inspect(t.Context(), "report")
		testkit.Must(t, err)
		return len(queue.Holders()) == 0
	})
}

// TestStartedAgain: the run that has lost its lease ends after the next one has begun, and does not take its context.
func TestStartedAgain(t *testing.T) {
	server := memstore.NewServer()
	locks := holdfast.New(server.Connect())
	defer locks.Close()
	locker := gocronlock.NewLocker(locks)
	job, cancel := context.WithCancel(t.Context())
	defer cancel()
	old, err := locker.Lock(job, "report")
	testkit.Must(t, err)
	server.Revoke("report")
	before, _ := locker.Context(job)
	<-before.Done()
	next, err := locker.Lock(job, "report")
	testkit.Must(t, err)
	if err := old.Unlock(job); !errors.Is(err, holdfast.ErrLost) {
		t.Error(err)
	}
	if ctx, ok := locker.Context(job); !ok || ctx.Err() != nil {
		t.Error("the next run has no context", ok)
	}
	testkit.Check(t, next.Unlock(job))
	if _, ok := locker.Context(job); ok {
		t.Error("no run is left, and there is a context")
	}
}

// TestStoreFails: a failure of the store is reported as one, and not as a lock that is taken.
func TestStoreFails(t *testing.T) {
	server := memstore.NewServer()
	store := server.Connect()
	locks := holdfast.New(store, holdfast.WithTTL(100*time.Millisecond))
	defer locks.Close()
	store.Disconnect()
	_, err := gocronlock.NewLocker(locks).Lock(t.Context(), "report")
	if _, ok := errors.AsType[*holdfast.Fault](err); !ok || errors.Is(err, holdfast.ErrLocked) {
		t.Error(err)
	}
	if _, err := gocronlock.NewLocker(locks, holdfast.WithAtLeast(-1)).Lock(t.Context(), "report"); !errors.Is(err,
		holdfast.ErrBadOption) {
		t.Error(err)
	}
}
