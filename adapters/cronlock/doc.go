// Package cronlock lets several machines share the jobs of github.com/robfig/cron: each machine has the same schedule,
// and one of them runs the job.
//
//	once, err := cronlock.NewOnce(locks, "report", schedule, 10*time.Second)
//	if err != nil {
//		return err
//	}
//	c.Schedule(schedule, once.Job(ctx, writeReport))
//
// There are two kinds. A [Once] runs a job at most once for each fire time of its schedule, on all machines together.
// It is what most jobs need. A [Skip] skips a run if the job is running on another machine. Both make a cron.Job of a
// function with a context and an error, and their method Wrap is a cron.JobWrapper for any other job.
//
// # Why a lock is not enough
//
// A lock excludes two runs at the same time. It does not make two runs one. If a job takes a millisecond, the first
// machine has released the lock before the clock of the second says that it is time, and the job runs once on each
// machine. A Once remembers the fire time in the store instead. A Skip needs the option holdfast.WithAtLeast for that,
// and still runs the job again if the process that has run it dies before its Unlock.
//
// # Contexts, errors and panics
//
// cron calls a job without a context, and has no use for an error. So a job that is made here gets the context that was
// passed to Job, which the program ends when it shuts down; under a Skip the context ends also when the lease is lost,
// and holdfast.TokenFrom finds the fencing token in it. What fails is logged: the error of the job, a lease that was
// lost, a store that could not be reached. A run that is skipped because another machine has it is logged at the level
// Debug. A panic of the job is not recovered; cron.Recover in the chain does that, and the lock is released in any
// case.
//
// # The library
//
// github.com/robfig/cron/v3 is finished rather than maintained: its last release, v3.0.1, is of January 2020. It is
// still the library that most programs use for cron expressions, has no dependencies, and others parse with it. For new
// programs, consider gocron with package gocronlock.
package cronlock
