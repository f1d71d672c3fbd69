package broken

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
	_ "github.com/holdfast-go/holdfast/sqlstore/postgres" // postgres:, and the driver pgx
)

const rowSchema = `CREATE TABLE IF NOT EXISTS locks (name TEXT PRIMARY KEY, expires BIGINT NOT NULL DEFAULT 0)`

// A row is a lock that only one can insert, since its name is unique.
type row struct{ file }

func (l row) tryLock(ctx context.Context) (bool, error) {
	return changed(ctx, l.DB, `INSERT INTO locks (name) VALUES (?) ON CONFLICT DO NOTHING`, l.Lock)
}

func (l row) unlock(ctx context.Context) error {
	_, err := l.ExecContext(ctx, `DELETE FROM locks WHERE name = ?`, l.Lock)
	return err
}

var openRow = overFile(rowSchema, func(f file) lock { return row{f} })

// A sweptRow has an expiry. Whoever comes removes what is over by its own clock.
type sweptRow struct {
	row
	expires time.Time
}

func (l *sweptRow) tryLock(ctx context.Context) (bool, error) {
	now := l.clock()
	if _, err := l.ExecContext(ctx, `DELETE FROM locks WHERE name = ? AND expires <= ?`, l.Lock,
		now.UnixMilli()); err != nil {
		return false, err
	}
	l.expires = now.Add(l.TTL)
	return changed(ctx, l.DB, `INSERT INTO locks (name, expires) VALUES (?, ?) ON CONFLICT DO NOTHING`,
		l.Lock, l.expires.UnixMilli())
}

func (l *sweptRow) believes() bool { return l.clock().Before(l.expires) }

// A replicaRow asks a replica whether the lock is free, because the primary has enough to do, and then takes it at the
// primary. Time is the database's.
type replicaRow struct {
	*part
	primary, replica *sql.DB
}

func (l *replicaRow) tryLock(ctx context.Context) (bool, error) {
	var held bool
	err := l.replica.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT FROM locks WHERE name = $1 AND expires > extract(epoch FROM now()))`, l.Lock).Scan(&held)
	if err != nil || held {
		return false, err
	}
	return changed(ctx, l.primary, `INSERT INTO locks VALUES ($1, extract(epoch FROM now())::bigint + $2)
		ON CONFLICT (name) DO UPDATE SET expires = excluded.expires`, l.Lock, int(l.TTL.Seconds()))
}

func (l *replicaRow) unlock(ctx context.Context) error {
	_, err := l.primary.ExecContext(ctx, `DELETE FROM locks WHERE name = $1`, l.Lock)
	return err
}

func (l *replicaRow) close() error { return errors.Join(l.primary.Close(), l.replica.Close()) }

var rowNoExpiry = &Rung{
	Number: 11, Name: "row-no-expiry",
	What:     "a row under a unique index: INSERT takes the lock, DELETE releases it",
	Seen:     "applications that have a database and need one lock; migration tools",
	Promise:  "when a holder dies, somebody else gets the lock",
	Story:    "A inserts the row and is killed. B waits.",
	Rule:     check.LongWait,
	Prevents: "Every claim has a ttl. In a SQLite file a dead process is even found out at once, by its socket.",
	Store:    "sqlite", Budget: 20 * time.Second,
	broken:   openRow,
	holdfast: holdfastFile,
	schedule: func(s *stage) {
		s.onFile()
		s.holderDies()
	},
}

var rowClientClock = &Rung{
	Number: 11, Name: "row-client-clock",
	What:    "a row with an expiry, which whoever comes compares with its own clock, and sweeps",
	Seen:    "schedulers and job queues on SQL databases",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "B's clock is ahead. It sweeps the lock that A has just taken.",
	Prevents: "Time is the store's: in a SQLite file the time since the machine was started, in a database server " +
		"its own clock. (The skew is B's alone: nothing of Holdfast's asks for the time of day to decide it.)",
	Store: "sqlite", Budget: 20 * time.Second,
	broken:   overFile(rowSchema, func(f file) lock { return &sweptRow{row: row{f}} }),
	holdfast: holdfastFile,
	schedule: func(s *stage) {
		s.onFile()
		s.clockIsAhead()
	},
}

var rowReplica = &Rung{
	Number: 11, Name: "row-replica",
	What:    "a row that is looked for on a replica before it is taken at the primary",
	Seen:    "applications whose database layer sends every SELECT to a replica",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "A takes the lock at the primary. The replica lags. B reads there that it is free, and takes it too.",
	Prevents: "Each step is one transaction at the primary, which locks what it reads. Of several hosts the store " +
		"uses the one that takes writes, and a server that does not is an error.",
	Store: "postgres", Needs: []string{"postgres"}, Budget: 30 * time.Second,
	broken: func(_ context.Context, p *part) (lock, error) {
		primary, err := sql.Open("pgx", postgresURL(p.Addrs[0]))
		replica, failed := sql.Open("pgx", postgresURL(p.Addrs[1]))
		return &replicaRow{p, primary, replica}, errors.Join(err, failed)
	},
	holdfast: func(p *part) string { return postgresURL(p.Addrs[1], p.Addrs[0]) + fmt.Sprintf("&ttl=%v", p.TTL) },
	schedule: func(s *stage) {
		primary, replica := s.onPostgres()
		s.on(primary.Addr(), replica.Addr())
		a, b := s.enter("A"), s.enter("B")
		s.breaks("lag", "replica", "the replica lags behind the primary")
		a.locks()
		b.triesWrongly(s.millis(150, 300))
	},
}

func postgresURL(addrs ...string) string {
	return fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", strings.Join(addrs, ","))
}

// onPostgres is a primary and a replica that has the tables, and receives nothing more.
func (s *stage) onPostgres() (primary, replica *servers.PostgresServer) {
	pair := share(s, "postgres", func(t testing.TB) [2]*servers.PostgresServer {
		primary := servers.Postgres(t)
		replica := primary.Standby(t)
		_, err := primary.DB(t).ExecContext(context.Background(), rowSchema)
		if err == nil {
			err = errors.Join(replica.AwaitCaughtUp(), replica.StopReplication())
		}
		if err != nil {
			t.Fatal(err)
		}
		return [2]*servers.PostgresServer{primary, replica}
	})
	return pair[0], pair[1]
}
