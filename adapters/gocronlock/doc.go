// Package gocronlock lets several machines share the jobs of gocron schedulers: a [Locker] acquires a lock for each run
// of a job, and an [Elector] lets one of the machines run all jobs.
//
//	locker := gocronlock.NewLocker(locks, holdfast.WithAtLeast(10*time.Second))
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// # A short job, and clocks that differ
//
// A lock excludes two runs at the same time. It does not make two runs one. If a job takes a millisecond, the first
// machine has released the lock before the clock of the second says that it is time, and the job runs once on each
// machine. gocron leaves that to the Locker. So pass the option [holdfast.WithAtLeast], with a time that is longer than
// the clocks of the machines can differ, and shorter than the time between two runs: the lock then stays taken for that
// long, even if the job ends at once. Stores that cannot keep a lock without its holder, such as those for ZooKeeper
// and Redlock, refuse the option, and the job runs nowhere: [gocron.AfterLockError] reports holdfast.ErrUnsupported.
// With these, use an Elector.
//
// A DurationJob counts from the moment at which its scheduler was started, which differs between machines by more than
// clocks do. Use a CronJob, or align it with [gocron.WithStartAt].
//
// # What gocron does with a Locker
//
// gocron calls Lock when a job is due, in the goroutine of the job. The key is the name of the job, and the name of the
// lock. Give jobs a name with [gocron.WithName]: otherwise it is the name of the Go function, such as main.main.func1,
// which is the same for all jobs that are made in one place, and may be another one after the next build.
//
// If Lock returns an error, gocron skips this run of the job on this machine, calls the listener
// [gocron.AfterLockError], and schedules the next run. That the lock is taken elsewhere is the ordinary case, with an
// error that is a holdfast.ErrLocked. Anything else is a failure: log it, since no machine may have run the job.
//
// gocron calls Unlock when the job has returned or panicked, and ignores its error. An Observer or a logger of the
// client sees a lease that was lost.
//
// # A lease that is lost
//
// The context that gocron passes to a job ends with the scheduler. It knows nothing of the lock. If the lease is lost
// while the job runs, because the machine was cut off from the store, gocron does not stop the job, and another machine
// may start it. So a job that takes long obtains the context of its run from [Locker.Context]. That one ends when the
// lease is lost too, and has the fencing token.
//
// # The library
//
// gocron (github.com/go-co-op/gocron/v2) has interfaces for locks and elections between machines, and leaves their
// implementation to others. It is maintained: this package is tested with v2.21 of May 2026. It requires three small
// modules. Package cronlock is for github.com/robfig/cron.
package gocronlock
