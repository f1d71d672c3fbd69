// Package migratelock runs the migrations of golang-migrate under a Holdfast lock: if many replicas of a program start
// at once and migrate their database, one does it, and the others wait for it.
//
//	m, err := migratelock.New(ctx, locks.Mutex("migrations"), "iofs", source, "sqlite", driver)
//	if err != nil {
//		return err
//	}
//	if err := m.Up(); err != nil && !errors.Is(err, migrate.ErrNoChange) {
//		return err
//	}
//
// Some drivers of golang-migrate have a lock in the database, such as those for PostgreSQL and MySQL. Others have none:
// the lock of the driver for SQLite is a variable of the process, and the replicas run the same migration at the same
// time. This package gives all of them a lock that is fair, has no timeout of its own, and survives a pooler between
// the program and the database. The driver's own lock is acquired as well, after it.
//
// # A lock that is lost
//
// golang-migrate takes no context. It has a channel for a stop, but after a stop Up returns nil, as if all migrations
// had been applied. So the lease is checked in the driver instead: if it was lost, or ctx has ended, no further
// migration begins, and Up returns an error that wraps holdfast.ErrLost or that of ctx. A migration that has begun is
// completed, with its version: until then the database is marked as dirty, and golang-migrate in another replica
// refuses to migrate it. What no lock can prevent is a process that is paused between the check and the mark.
//
// After a loss, the Migrate is of no further use, since golang-migrate believes that it is still locked: make a new
// one. As after every error, golang-migrate leaves goroutines behind that have read migrations ahead.
//
// # The library
//
// golang-migrate (github.com/golang-migrate/migrate/v4) is one of the two libraries for migrations that most programs
// in Go use; package gooselock is for the other one. It is maintained: this package is tested with v4.20 of September
// 2026. Its module requires the clients of some twenty databases. So this package is a module of its own, and Holdfast
// does not require it.
package migratelock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source"

	"github.com/holdfast-go/holdfast"
)

// New returns a Migrate, as migrate.NewWithInstance does, whose methods hold the mutex while they change the database.
// They wait for it. ctx bounds that wait, and no migration begins after ctx has ended. The option holdfast.WithWait of
// the mutex bounds the wait too. The field LockTimeout of the Migrate, which is 15 s by default, is set to the longest
// time; if the program sets a shorter one, it bounds the wait as well.
//
// source.Open and database.Open make drivers of URLs. A driver may create its table of versions when it is opened,
// before the lock is held.
func New(
	ctx context.Context, mutex *holdfast.Mutex,
	sourceName string, sourceInstance source.Driver, databaseName string, databaseInstance database.Driver,
) (*migrate.Migrate, error) {
	switch {
	case ctx == nil:
		return nil, holdfast.ErrNilContext
	case mutex == nil || sourceInstance == nil || databaseInstance == nil:
		return nil, fmt.Errorf("%w: the mutex, the source or the database is nil", holdfast.ErrBadOption)
	}
	d := &driver{Driver: databaseInstance, ctx: ctx, mutex: mutex}
	m, err := migrate.NewWithInstance(sourceName, sourceInstance, databaseName, d)
	if err != nil {
		return nil, err
	}
	m.LockTimeout = math.MaxInt64
	d.timeout = func() time.Duration { return m.LockTimeout }
	return m, nil
}

// A driver is a database driver whose lock is a mutex and then its own.
type driver struct {
	database.Driver
	ctx     context.Context
	mutex   *holdfast.Mutex
	timeout func() time.Duration
	lease   *holdfast.Lease // from Lock to Unlock
	begun   bool            // a migration has begun, and is not complete
}

// Lock acquires the mutex and the driver's own lock. golang-migrate abandons a call that takes longer than its timeout,
// and would never release what that acquires later. So Lock ends before.
func (d *driver) Lock() error {
	timeout := d.timeout()
	ctx, cancel := context.WithTimeout(d.ctx, timeout-timeout/10)
	defer cancel()
	lease, err := d.mutex.Lock(ctx)
	if err != nil {
		return err
	}
	if err := d.Driver.Lock(); err != nil {
		return errors.Join(err, lossOf(lease.Unlock(d.ctx)))
	}
	d.lease, d.begun = lease, false
	return nil
}

// Unlock releases the driver's own lock and the mutex. It reports a lease that was lost.
func (d *driver) Unlock() error {
	lease := d.lease
	if lease == nil {
		return database.ErrNotLocked
	}
	d.lease = nil
	return errors.Join(d.Driver.Unlock(), lossOf(lease.Unlock(d.ctx)))
}

// lossOf returns the error of Unlock if it is a loss. A release that the store did not confirm is repeated in the
// background.
func lossOf(err error) error {
	if errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrClosed) {
		return err
	}
	return nil
}

// SetVersion begins a migration if dirty, unless the lease is over, and completes it otherwise.
func (d *driver) SetVersion(version int, dirty bool) error {
	if dirty || !d.begun { // a version that is forced is not completed but set
		if err := d.check(); err != nil {
			return fmt.Errorf("stopped before version %d: %w", version, err)
		}
	}
	err := d.Driver.SetVersion(version, dirty)
	d.begun = dirty && err == nil
	return err
}

// Drop deletes everything, unless the lease is over.
func (d *driver) Drop() error {
	if err := d.check(); err != nil {
		return fmt.Errorf("nothing was dropped: %w", err)
	}
	return d.Driver.Drop()
}

// check returns nil while the lease is held and ctx has not ended.
func (d *driver) check() error {
	if d.lease == nil {
		return database.ErrNotLocked
	}
	if err := d.lease.Err(); err != nil {
		return err
	}
	return context.Cause(d.ctx)
}
