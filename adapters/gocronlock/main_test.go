package gocronlock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// noon is a time at which no test runs.
var noon = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

// A machine has a scheduler with a clock of its own, and a client of the store that all machines share.
type machine struct {
	*testing.T
	locks     *holdfast.Client
	clock     *clockwork.FakeClock
	scheduler gocron.Scheduler
	shutdown  func()
}

// newMachine starts a machine. What it uses to share jobs is made of its client.
func newMachine(t *testing.T, server *memstore.Server, share func(*holdfast.Client) gocron.SchedulerOption) *machine {
	t.Helper()
	m := &machine{T: t, locks: holdfast.New(server.Connect()), clock: clockwork.NewFakeClockAt(noon)}
	t.Cleanup(func() { m.locks.Close() })
	var err error
	m.scheduler, err = gocron.NewScheduler(gocron.WithClock(m.clock), gocron.WithLocation(time.UTC), share(m.locks))
	testkit.Must(t, err)
	m.shutdown = sync.OnceFunc(func() { testkit.Check(t, m.scheduler.Shutdown()) })
	t.Cleanup(m.shutdown)
	return m
}

// leave ends a machine. When it returns, each of its jobs has ended and all of its locks are unlocked.
func (m *machine) leave() {
	m.Helper()
	m.shutdown()
	testkit.Check(m, m.locks.Close())
}

// everyMinute schedules a task at each full minute of the machine's clock.
func (m *machine) everyMinute(task any, options ...gocron.JobOption) {
	m.Helper()
	options = append([]gocron.JobOption{gocron.WithName("report")}, options...)
	_, err := m.scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(task), options...)
	testkit.Must(m, err)
	m.scheduler.Start()
}

// passMinute lets a minute pass on the machine's clock, when the next run of the job is scheduled.
func (m *machine) passMinute() {
	m.Helper()
	testkit.Must(m, m.clock.BlockUntilContext(m.Context(), 1))
	m.clock.Advance(time.Minute)
}
