package cronlock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/cronlock"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
)

// newSkip returns a Skip.
func newSkip(t *testing.T, mutex *holdfast.Mutex, options ...cronlock.Option) *cronlock.Skip {
	t.Helper()
	skip, err := cronlock.NewSkip(mutex, options...)
	testkit.Must(t, err)
	return skip
}

// TestSkip: a job that takes 150 s is due every minute on two machines. One run is under way at a time.
func TestSkip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.NewServer()
		running, runs := 0, 0
		var ends []func()
		for i := range 2 {
			locks := holdfast.New(server.Connect())
			t.Cleanup(func() { locks.Close() })
			var log journal
			t.Cleanup(func() { log.want(t) })
			job := newSkip(t, locks.Mutex("report"), log.option()).Wrap(cron.FuncJob(func() {
				if running++; running > 1 {
					t.Error("two runs at once")
				}
				runs++
				time.Sleep(150 * time.Second)
				running--
			}))
			ends = append(ends, start(lateSchedule{parse(t, "* * * * *"), time.Duration(i) * time.Second}, job))
		}
		time.Sleep(10 * time.Minute)
		for _, end := range ends {
			end()
		}
		if runs < 3 || runs > 4 {
			t.Errorf("%d runs", runs)
		}
	})
}

// TestContext: the context of a job has a token, ends when the lease is lost, and with the program's context.
func TestContext(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(server *memstore.Server, stop context.CancelFunc)
		cause  error
		logged []string
	}{
		"lost": {func(server *memstore.Server, _ context.CancelFunc) { server.Revoke("report") }, holdfast.ErrLost,
			[]string{"lock lost while the job ran", "name=report"}},
		"stop": {func(_ *memstore.Server, stop context.CancelFunc) { stop() }, context.Canceled, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := memstore.NewServer()
			locks := holdfast.New(server.Connect())
			defer locks.Close()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var log journal
			newSkip(t, locks.Mutex("report"), log.option()).Job(ctx, func(ctx context.Context) error {
				if _, ok := holdfast.TokenFrom(ctx); !ok {
					t.Error("there is no token")
				}
				c.end(server, stop)
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, c.cause) {
					t.Error(cause)
				}
				return nil
			}).Run()
			log.want(t, c.logged...)
		})
	}
}

// TestPanic: the lock of a job that panics is released, and the panic goes on.
func TestPanic(t *testing.T) {
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	var log journal
	job := newSkip(t, locks.Mutex("report"), log.option()).Job(t.Context(), func(context.Context) error {
		panic("no paper")
	})
	func() {
		defer func() {
			if got := recover(); got != "no paper" {
				t.Error(got)
			}
		}()
		job.Run()
	}()
	testkit.Unlock(t, testkit.Lock(t, locks, "report"))
	log.want(t)
}

// TestNotRun: a failure of the store is logged as one, and so is that of the job.
func TestNotRun(t *testing.T) {
	connection := memstore.New()
	locks := holdfast.New(connection, holdfast.WithTTL(100*time.Millisecond))
	defer locks.Close()
	var log journal
	job := newSkip(t, locks.Mutex("report"), log.option()).Job(t.Context(), func(context.Context) error {
		return errors.New("no paper")
	})
	job.Run()
	log.want(t, "job failed", "no paper", "name=report")
	connection.Disconnect()
	log = journal{}
	job.Run()
	log.want(t, "could not be acquired", "level=ERROR", "report")
}
