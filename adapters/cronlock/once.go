package cronlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast"
)

// The errors of a run whose fire time is not certain. The job is not run then, and the error is logged.
var (
	// ErrNoFireTime: the schedule has no fire time near enough. The run is late, or the schedule is not the job's.
	ErrNoFireTime = errors.New("cronlock: no fire time is near")

	// ErrDense: the schedule has two fire times that are not more than two skews apart.
	ErrDense = errors.New("cronlock: fire times are too near to each other")
)

const (
	// leastKept is how long the store remembers a fire time at least.
	leastKept = time.Minute
	// tried is how many fire times NewOnce checks.
	tried = 100
)

// A Once runs a job at most once for each fire time of its schedule, on all machines together. It calls
// holdfast.Client.Once with the fire time as the occasion: so it holds also if the job takes no time, if it fails or
// panics, and if its process dies. A run that has failed is not repeated.
//
// All machines must agree which fire time a run belongs to. It is the one that is nearest to the machine's clock, and
// at most the skew away. So the skew is greater than the difference of any two clocks, and than the time by which a
// busy machine starts a job late. Fire times must be more than two skews apart. A run for which that does not hold is
// refused and logged.
//
// Runs for different fire times do not exclude each other. If the job may take longer than the time between two of
// them, it acquires a lock in addition: wrap it in a [Skip], or call holdfast.Mutex.Do in it.
type Once struct {
	locks    *holdfast.Client
	name     string
	schedule cron.Schedule
	skew     time.Duration
	keepFor  time.Duration
	*config
}

// NewOnce returns a Once for a job with this name and schedule. The store remembers each fire time for four skews, and
// at least for a minute.
//
// The error wraps ErrDense if fire times are too near to each other for this skew, holdfast.ErrBadOption if an argument
// is wrong or the schedule has no fire times that machines share (as that of "@every 5m", which counts from the start
// of each), holdfast.ErrUnsupported if the store cannot remember fire times, and holdfast.ErrBadTTL if it cannot for
// that long.
func NewOnce(locks *holdfast.Client, name string, schedule cron.Schedule, skew time.Duration, options ...Option) (
	*Once, error,
) {
	c, err := configure(options)
	if err != nil {
		return nil, err
	}
	switch {
	case schedule == nil:
		return nil, fmt.Errorf("%w: the schedule is nil", holdfast.ErrBadOption)
	case skew <= 0:
		return nil, fmt.Errorf("%w: a skew of %v: it must be positive", holdfast.ErrBadOption, skew)
	}
	o := &Once{locks: locks, name: name, schedule: schedule, skew: skew, config: c}
	if err := o.checkStore(); err != nil {
		return nil, err
	}
	if err := o.checkSchedule(time.Now()); err != nil {
		return nil, err
	}
	return o, nil
}

// checkStore sets for how long the store remembers fire times. For a fire time F and a skew s, the clock of each
// machine shows F-s to F+s when its run starts. When the first run starts, every other clock shows at least F-2s. So
// the last run starts at most three skews later.
func (o *Once) checkStore() error {
	a := o.locks.Abilities()
	switch least := 4 * o.skew; {
	case !a.Detach:
		return fmt.Errorf("%w: the store cannot keep locks without a holder", holdfast.ErrUnsupported)
	case least > a.MaxTTL:
		return fmt.Errorf("%w: four skews of %v are more than the %v for which the store can remember a fire time",
			holdfast.ErrBadTTL, o.skew, a.MaxTTL)
	default:
		o.keepFor = min(max(least, leastKept, a.MinTTL), a.MaxTTL)
		return nil
	}
}

// checkSchedule checks the fire times that come next. Those that come later are checked when they are due.
func (o *Once) checkSchedule(now time.Time) error {
	fire := o.schedule.Next(now.In(o.location))
	if fire.IsZero() {
		return fmt.Errorf("%w: the schedule has no fire time", holdfast.ErrBadOption)
	}
	if again := o.schedule.Next(fire.Add(-time.Nanosecond)); !again.Equal(fire) {
		return fmt.Errorf("%w: the schedule has no fire times that machines share: they depend on when it was started",
			holdfast.ErrBadOption)
	}
	for range tried {
		if err := o.checkGap(fire); err != nil {
			return err
		}
		if fire = o.schedule.Next(fire); fire.IsZero() {
			break
		}
	}
	return nil
}

// checkGap returns an error if the fire time after this one is too near.
func (o *Once) checkGap(fire time.Time) error {
	if next := o.schedule.Next(fire); !next.IsZero() && next.Sub(fire) <= 2*o.skew {
		return fmt.Errorf("%w: %v and %v, with a skew of %v", ErrDense, fire, next, o.skew)
	}
	return nil
}

// FireTime returns the fire time of a run that has started now: the one that is at most the skew away. The error wraps
// ErrNoFireTime or ErrDense.
func (o *Once) FireTime(now time.Time) (time.Time, error) {
	now = now.In(o.location)
	fire := o.schedule.Next(now.Add(-o.skew - time.Nanosecond))
	if fire.IsZero() || fire.After(now.Add(o.skew)) {
		return time.Time{}, fmt.Errorf("%w: none within %v of %v; the next is %v", ErrNoFireTime, o.skew, now, fire)
	}
	if err := o.checkGap(fire); err != nil {
		return time.Time{}, err
	}
	return fire, nil
}

// Job returns a job that runs fn, with ctx, unless another machine has run it for the same fire time.
func (o *Once) Job(ctx context.Context, fn func(ctx context.Context) error) cron.Job {
	return cron.FuncJob(func() { o.run(ctx, fn) })
}

// Wrap returns a job that runs another one, unless another machine has run it for the same fire time. It is a
// cron.JobWrapper. It must be the first of its chain: a wrapper before it, such as cron.DelayIfStillRunning, could
// start the run too late.
func (o *Once) Wrap(job cron.Job) cron.Job {
	return o.Job(context.Background(), func(context.Context) error { job.Run(); return nil })
}

// run runs fn if the fire time is new.
func (o *Once) run(ctx context.Context, fn func(ctx context.Context) error) {
	log := o.log().With("name", o.name)
	fire, err := o.FireTime(time.Now())
	if err != nil {
		log.ErrorContext(ctx, "holdfast: job not run, since its fire time is not certain", "err", err)
		return
	}
	called, err := o.locks.Once(ctx, o.name, fire.UTC().Format(time.RFC3339Nano), o.keepFor, fn)
	switch {
	case called && err != nil:
		log.ErrorContext(ctx, "holdfast: job failed", "fire", fire, "err", err)
	case err != nil:
		log.ErrorContext(ctx, "holdfast: job not run, since its fire time could not be remembered", "fire", fire,
			"err", err)
	case !called:
		log.DebugContext(ctx, "holdfast: job skipped, since it was run for this fire time", "fire", fire)
	}
}
