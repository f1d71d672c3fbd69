// Package gooselock runs the migrations of goose under a Holdfast lock: if many replicas of a program start at once and
// migrate their database, one does it, and the others wait for it.
//
//	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations)
//	if err != nil {
//		return err
//	}
//	_, err = gooselock.New(provider, locks.Mutex("migrations")).Up(ctx)
//
// goose has locks for PostgreSQL and MySQL, which are not on by default, and interfaces for others. This package does
// not implement those: goose checks for pending migrations and creates its table before it calls them, and a lock that
// is called by goose cannot end the context of a migration. Here the lock is around all of it. If the provider has a
// lock of goose's, it is acquired as well, after this one.
//
// # A lock that is lost
//
// If the lease is lost, the context of the migration ends. A migration in a transaction is then rolled back, and no
// further one begins. The error wraps holdfast.ErrLost, and the *goose.PartialError that names what was applied. A
// migration without a transaction may have been applied in part, as with any error. holdfast.TokenFrom finds the
// fencing token in the context of a migration in Go.
//
// # The library
//
// goose (github.com/pressly/goose/v3) is one of the two libraries for migrations that most programs in Go use; package
// migratelock is for the other one. It is maintained: this package is tested with v3.29 of October 2026. Its module
// requires the drivers of many databases. So this package is a module of its own, and Holdfast does not require it.
package gooselock

import (
	"context"

	"github.com/pressly/goose/v3"

	"github.com/holdfast-go/holdfast"
)

// A Provider is a goose.Provider whose methods that change the database hold a mutex, and wait for it. The context
// bounds the wait and the migration; holdfast.WithWait bounds the wait too. The other methods are those of the
// goose.Provider.
//
// The lock is acquired also if there is nothing to migrate, so that the store must be reachable whenever the program
// starts. A program that must start without it calls HasPending first.
type Provider struct {
	*goose.Provider
	mutex *holdfast.Mutex
}

// New returns a Provider over another one.
func New(provider *goose.Provider, mutex *holdfast.Mutex) *Provider {
	return &Provider{provider, mutex}
}

// under calls a method of the goose.Provider under the mutex. It returns the method's result also with an error.
func under[T any](ctx context.Context, p *Provider, method func(context.Context) (T, error)) (result T, err error) {
	err = p.mutex.Do(ctx, func(ctx context.Context) (err error) {
		result, err = method(ctx)
		return err
	})
	return result, err
}

// Up applies all pending migrations. See goose.Provider.Up. A replica that has waited for another one finds none left,
// and the result is empty.
func (p *Provider) Up(ctx context.Context) ([]*goose.MigrationResult, error) {
	return under(ctx, p, p.Provider.Up)
}

// UpByOne applies the next pending migration. See goose.Provider.UpByOne.
func (p *Provider) UpByOne(ctx context.Context) (*goose.MigrationResult, error) {
	return under(ctx, p, p.Provider.UpByOne)
}

// UpTo applies the pending migrations up to a version. See goose.Provider.UpTo.
func (p *Provider) UpTo(ctx context.Context, version int64) ([]*goose.MigrationResult, error) {
	return under(ctx, p, func(ctx context.Context) ([]*goose.MigrationResult, error) {
		return p.Provider.UpTo(ctx, version)
	})
}

// Down rolls back the last migration. See goose.Provider.Down.
func (p *Provider) Down(ctx context.Context) (*goose.MigrationResult, error) {
	return under(ctx, p, p.Provider.Down)
}

// DownTo rolls back the migrations after a version. See goose.Provider.DownTo.
func (p *Provider) DownTo(ctx context.Context, version int64) ([]*goose.MigrationResult, error) {
	return under(ctx, p, func(ctx context.Context) ([]*goose.MigrationResult, error) {
		return p.Provider.DownTo(ctx, version)
	})
}

// ApplyVersion applies or rolls back one migration. See goose.Provider.ApplyVersion.
func (p *Provider) ApplyVersion(ctx context.Context, version int64, up bool) (*goose.MigrationResult, error) {
	return under(ctx, p, func(ctx context.Context) (*goose.MigrationResult, error) {
		return p.Provider.ApplyVersion(ctx, version, up)
	})
}
