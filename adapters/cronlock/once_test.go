package cronlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/cronlock"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

const skew = 10 * time.Second

// newOnce returns a Once for a schedule.
func newOnce(t *testing.T, locks *holdfast.Client, spec string, options ...cronlock.Option) *cronlock.Once {
	t.Helper()
	options = append([]cronlock.Option{cronlock.WithLocation(time.UTC)}, options...)
	once, err := cronlock.NewOnce(locks, "report", parse(t, spec), skew, options...)
	testkit.Must(t, err)
	return once
}

// TestClocksThatDiffer: three machines run a job every minute that takes no time. Their clocks are late by up to
// 300 ms, so that each has finished before it is time for the next. With a plain lock all of them run it.
func TestClocksThatDiffer(t *testing.T) {
	const machines, minutes = 3, 10
	for name, c := range map[string]struct {
		wrap func(t *testing.T, locks *holdfast.Client) cron.JobWrapper
		want int32
	}{
		"plain lock": {func(t *testing.T, locks *holdfast.Client) cron.JobWrapper {
			return newSkip(t, locks.Mutex("report")).Wrap
		}, machines * minutes},
		"lock with WithAtLeast": {func(t *testing.T, locks *holdfast.Client) cron.JobWrapper {
			return newSkip(t, locks.Mutex("report", holdfast.WithAtLeast(skew))).Wrap
		}, minutes},
		"once": {func(t *testing.T, locks *holdfast.Client) cron.JobWrapper {
			return newOnce(t, locks, "* * * * *").Wrap
		}, minutes},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				betweenMinutes()
				server := memstore.NewServer()
				var ran atomic.Int32
				for i := range machines {
					locks := holdfast.New(server.Connect())
					t.Cleanup(func() { locks.Close() })
					job := c.wrap(t, locks)(cron.FuncJob(func() { ran.Add(1) }))
					clock := lateSchedule{parse(t, "* * * * *"), time.Duration(i) * 150 * time.Millisecond}
					t.Cleanup(start(clock, job))
				}
				time.Sleep(minutes * time.Minute)
				if ran.Load() != c.want {
					t.Errorf("it ran %d times in %d minutes, want %d", ran.Load(), minutes, c.want)
				}
			})
		})
	}
}

// TestNothingIsLeft: the store forgets a fire time after a minute.
func TestNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := holdfast.New(memstore.New())
		defer locks.Close()
		left := func() (names []string) {
			for name, err := range locks.Names(t.Context(), "") {
				testkit.Must(t, err)
				names = append(names, name)
			}
			return names
		}
		defer start(parse(t, "0 * * * *"), newOnce(t, locks, "0 * * * *").Job(t.Context(),
			func(context.Context) error { return nil }))()
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 30*time.Second)))
		if names := left(); len(names) != 1 || names[0] != "report@"+time.Now().UTC().Truncate(time.Hour).Format(
			time.RFC3339) {
			t.Error(names)
		}
		time.Sleep(time.Minute)
		if names := left(); len(names) != 0 {
			t.Error(names)
		}
	})
}

// TestFails: a job that has failed has been run. If the store has failed, another machine runs it. Both are logged.
func TestFails(t *testing.T) {
	for name, c := range map[string]struct {
		job    func(context.Context) error
		before func(*memstore.Store)
		logged []string
		second int // how often the job runs on the second machine
	}{
		"error": {func(context.Context) error { return errors.New("no paper") }, nil,
			[]string{"job failed", "no paper"}, 0},
		"no store": {nil, (*memstore.Store).Disconnect, []string{"could not be remembered", "level=ERROR"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				betweenMinutes()
				server := memstore.NewServer()
				connection := server.Connect()
				first, second := holdfast.New(connection), holdfast.New(server.Connect())
				defer first.Close()
				defer second.Close()
				var log, other journal
				ran := 0
				spec := "* * * * *"
				endFirst := start(parse(t, spec), newOnce(t, first, spec, log.option()).Job(t.Context(), c.job))
				endSecond := start(lateSchedule{parse(t, spec), time.Second}, newOnce(t, second, spec,
					other.option()).Job(t.Context(), func(context.Context) error { ran++; return nil }))
				if c.before != nil {
					c.before(connection)
				}
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 5*time.Second)))
				connection.Reconnect()
				endFirst()
				endSecond()
				log.want(t, append(c.logged, "name=report")...)
				other.want(t)
				if ran != c.second {
					t.Errorf("it ran %d times on the second machine, want %d", ran, c.second)
				}
			})
		})
	}
}

// TestLate: a run that starts too late to be certain of its fire time is refused.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := holdfast.New(memstore.New())
		defer locks.Close()
		var log journal
		job := newOnce(t, locks, "0 * * * *", log.option()).Job(t.Context(), func(context.Context) error {
			t.Error("it ran")
			return nil
		})
		end := start(lateSchedule{parse(t, "0 * * * *"), time.Minute}, job)
		time.Sleep(time.Hour)
		end()
		log.want(t, "fire time is not certain", "no fire time is near", "level=ERROR")
	})
}

// TestFireTime: which fire time a run belongs to, for clocks around it.
func TestFireTime(t *testing.T) {
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	noon := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	once := newOnce(t, locks, "0 * * * *")
	for now, want := range map[time.Duration]error{
		0: nil, -skew: nil, skew: nil, 3 * time.Second: nil, -time.Millisecond: nil,
		-skew - 1: cronlock.ErrNoFireTime, skew + 1: cronlock.ErrNoFireTime, 30 * time.Minute: cronlock.ErrNoFireTime,
	} {
		fire, err := once.FireTime(noon.Add(now))
		if !errors.Is(err, want) || err == nil && !fire.Equal(noon) {
			t.Errorf("at %v: %v, %v", now, fire, err)
		}
	}
	zone := time.FixedZone("east", 5*60*60+30*60)
	east, err := cronlock.NewOnce(locks, "report", parse(t, "0 3 * * *"), skew, cronlock.WithLocation(zone))
	testkit.Must(t, err)
	want := time.Date(2026, 11, 18, 3, 0, 0, 0, zone)
	if fire, err := east.FireTime(want.UTC()); err != nil || !fire.Equal(want) {
		t.Error(fire, err)
	}
}

// dense has two fire times each New Year that are too near to each other.
type dense struct{ gap time.Duration }

func (d dense) Next(t time.Time) time.Time {
	for year := t.Year(); ; year++ {
		first := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, fire := range []time.Time{first, first.Add(d.gap)} {
			if fire.After(t) {
				return fire
			}
		}
	}
}

// undetached is a store that cannot keep locks without a holder, or not for long.
type undetached struct {
	*memstore.Store
	change func(*store.Abilities)
}

func (u undetached) Abilities() store.Abilities {
	a := u.Store.Abilities()
	u.change(&a)
	return a
}

// TestRefused: what NewOnce refuses.
func TestRefused(t *testing.T) {
	locks := holdfast.New(memstore.New())
	noDetach := holdfast.New(undetached{memstore.New(), func(a *store.Abilities) { a.Detach = false }})
	short := holdfast.New(undetached{memstore.New(), func(a *store.Abilities) { a.MaxTTL = 20 * time.Second }})
	defer locks.Close()
	defer noDetach.Close()
	defer short.Close()
	for name, c := range map[string]struct {
		locks    *holdfast.Client
		schedule cron.Schedule
		skew     time.Duration
		option   cronlock.Option
		want     error
	}{
		"twice the skew":    {locks, parse(t, "* * * * *"), 30 * time.Second, nil, cronlock.ErrDense},
		"seldom too near":   {locks, dense{gap: 20 * time.Second}, skew, nil, cronlock.ErrDense},
		"every":             {locks, parse(t, "@every 5m"), skew, nil, holdfast.ErrBadOption},
		"never":             {locks, parse(t, "0 0 30 2 *"), skew, nil, holdfast.ErrBadOption},
		"no schedule":       {locks, nil, skew, nil, holdfast.ErrBadOption},
		"no skew":           {locks, parse(t, "@hourly"), 0, nil, holdfast.ErrBadOption},
		"no logger":         {locks, parse(t, "@hourly"), skew, cronlock.WithLogger(nil), holdfast.ErrBadOption},
		"no location":       {locks, parse(t, "@hourly"), skew, cronlock.WithLocation(nil), holdfast.ErrBadOption},
		"cannot remember":   {noDetach, parse(t, "@hourly"), skew, nil, holdfast.ErrUnsupported},
		"remembers briefly": {short, parse(t, "@hourly"), skew, nil, holdfast.ErrBadTTL},
		"just right":        {locks, parse(t, "* * * * *"), 29 * time.Second, nil, nil},
	} {
		var options []cronlock.Option
		if c.option != nil {
			options = append(options, c.option)
		}
		once, err := cronlock.NewOnce(c.locks, "report", c.schedule, c.skew, options...)
		if !errors.Is(err, c.want) || (err == nil) != (once != nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, err := cronlock.NewSkip(locks.Mutex("x"), nil); !errors.Is(err, holdfast.ErrBadOption) {
		t.Error(err)
	}
}

// TestDenseLater: fire times that come to be too near after NewOnce are refused when they are due.
func TestDenseLater(t *testing.T) {
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	once, err := cronlock.NewOnce(locks, "report", denseIn(3000), skew, cronlock.WithLocation(time.UTC))
	testkit.Must(t, err)
	if _, err := once.FireTime(time.Date(3000, 1, 1, 0, 0, 1, 0, time.UTC)); !errors.Is(err, cronlock.ErrDense) {
		t.Error(err)
	}
	if _, err := once.FireTime(time.Date(2999, 1, 1, 0, 0, 1, 0, time.UTC)); err != nil {
		t.Error(err)
	}
}

// denseIn fires at New Year, and in one year a second time, too soon after it.
type denseIn int

func (d denseIn) Next(t time.Time) time.Time {
	for year := t.Year(); ; year++ {
		fire := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		if fire.After(t) {
			return fire
		}
		if again := fire.Add(15 * time.Second); year == int(d) && again.After(t) {
			return again
		}
	}
}
