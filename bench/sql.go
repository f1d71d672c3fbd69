package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	_ "github.com/holdfast-go/holdfast/sqlstore/mysql"    // mysql:
	_ "github.com/holdfast-go/holdfast/sqlstore/postgres" // postgres:
)

// A sqlLocker is what people write on a database instead of a lock library.
type sqlLocker struct {
	db      *sql.DB
	acquire acquirer
}

func (l sqlLocker) Acquire(ctx context.Context, name string) (lease, error) {
	return l.acquire(ctx, l.db, name)
}

func (l sqlLocker) Close() error { return l.db.Close() }

// mostConnections is as many as Holdfast has, but for locks that are a connection each while they are held or waited
// for.
const mostConnections = 8

type acquirer func(ctx context.Context, db *sql.DB, name string) (lease, error)

// onPostgres opens a pool of pgx, which prepares statements by default.
func onPostgres(most int, acquire acquirer) opener {
	return func(_ context.Context, where string, _ time.Duration) (locker, error) {
		config, err := pgx.ParseConfig(where)
		if err != nil {
			return nil, err
		}
		return poolOf(stdlib.OpenDB(*config), most, acquire), nil
	}
}

// onMySQL opens a pool of go-sql-driver/mysql.
func onMySQL(most int, acquire acquirer) opener {
	return func(_ context.Context, where string, _ time.Duration) (locker, error) {
		u, err := url.Parse(where)
		if err != nil {
			return nil, err
		}
		config := mysql.NewConfig()
		config.User, config.DBName = u.User.Username(), strings.TrimPrefix(u.Path, "/")
		config.Net, config.Addr = "tcp", u.Host
		config.InterpolateParams = true // one round trip, as Holdfast's prepared statements
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, err
		}
		return poolOf(sql.OpenDB(connector), most, acquire), nil
	}
}

// poolOf returns a locker over a pool of so many connections, or of any number if that is 0. None is closed while it is
// idle.
func poolOf(db *sql.DB, most int, acquire acquirer) locker {
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(maxIdle)
	return sqlLocker{db, acquire}
}

// maxIdle is more connections than a workload has goroutines.
const maxIdle = 100

// insertRow is the floor: an INSERT and a DELETE, each committed. It keeps others out by the primary key, and does not
// wait for them.
func insertRow(insert, remove string) acquirer {
	return func(ctx context.Context, db *sql.DB, name string) (lease, error) {
		if _, err := db.ExecContext(ctx, insert, name); err != nil {
			return nil, err
		}
		return leaseFunc(func() error { _, err := db.ExecContext(context.Background(), remove, name); return err }), nil
	}
}

var (
	insertPostgres = insertRow("INSERT INTO bench (name) VALUES ($1)", "DELETE FROM bench WHERE name = $1")
	insertMySQL    = insertRow("INSERT INTO bench (name) VALUES (?)", "DELETE FROM bench WHERE name = ?")
)

// sessionLock is a lock of the session, on a connection of its own for as long as it is waited for and held.
func sessionLock(ctx context.Context, db *sql.DB, lock, unlock string, arg any) (lease, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got any
	if err := conn.QueryRowContext(ctx, lock, arg).Scan(&got); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return leaseFunc(func() error {
		err := conn.QueryRowContext(context.Background(), unlock, arg).Scan(&got)
		return errors.Join(err, conn.Close())
	}), nil
}

// advisoryLock is pg_advisory_lock, which has numbers for names.
func advisoryLock(ctx context.Context, db *sql.DB, name string) (lease, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return sessionLock(ctx, db, "SELECT pg_advisory_lock($1)::text", "SELECT pg_advisory_unlock($1)", int64(h.Sum64()))
}

// getLock is GET_LOCK of MySQL and MariaDB, with a day to wait.
func getLock(ctx context.Context, db *sql.DB, name string) (lease, error) {
	return sessionLock(ctx, db, "SELECT GET_LOCK(?, 86400)", "SELECT RELEASE_LOCK(?)", name)
}

// rowLock is SELECT … FOR UPDATE of a row in an open transaction. The row stays. It is inserted before the transaction
// begins: MariaDB locks the gap where a row is missing, and then the INSERT of another connection has to wait.
func rowLock(insert, lock string) acquirer {
	type row struct {
		db   *sql.DB
		name string
	}
	var inserted sync.Map // the rows that are known to be there
	return func(ctx context.Context, db *sql.DB, name string) (lease, error) {
		if _, known := inserted.Load(row{db, name}); !known {
			if _, err := db.ExecContext(ctx, insert, name); err != nil {
				return nil, err
			}
			inserted.Store(row{db, name}, true)
		}
		tx, err := db.BeginTx(context.WithoutCancel(ctx), nil) // a context that ends would roll back what is held
		if err != nil {
			return nil, err
		}
		if err := tx.QueryRowContext(ctx, lock, name).Scan(new(string)); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", lock, err), tx.Rollback())
		}
		return leaseFunc(tx.Commit), nil
	}
}

var (
	rowLockPostgres = rowLock("INSERT INTO bench (name) VALUES ($1) ON CONFLICT DO NOTHING",
		"SELECT name FROM bench WHERE name = $1 FOR UPDATE")
	rowLockMySQL = rowLock("INSERT IGNORE INTO bench (name) VALUES (?)",
		"SELECT name FROM bench WHERE name = ? FOR UPDATE")
)
