package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
)

// A database is a SQL server of our own, which waits for its disk at each commit, as it does by default.
type database struct {
	ourOwn
	db        *sql.DB
	where     string // its URL
	clear     []string
	commits   string // a query of how many transactions or statements there were
	pid       func() int
	roundTrip time.Duration
}

func startPostgres(ctx context.Context, _ serverSettings) (site, error) {
	d := &database{
		clear: []string{
			"DROP SCHEMA IF EXISTS holdfast CASCADE", "DROP TABLE IF EXISTS bench",
			"CREATE TABLE bench (name text PRIMARY KEY, holder text)",
		},
		commits: "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()",
	}
	return d.start(ctx, d, func(t testing.TB) error {
		server := servers.Postgres(t, servers.Args("-c", "fsync=on", "-c", "synchronous_commit=on"))
		d.db, d.where, d.pid = server.DB(t), server.URL("postgres", "", "postgres"), server.Pid
		return d.meet(ctx)
	})
}

func startMariaDB(ctx context.Context, _ serverSettings) (site, error) {
	d := &database{
		clear: []string{
			"DROP DATABASE IF EXISTS bench", "CREATE DATABASE bench",
			"CREATE TABLE bench.bench (name varbinary(512) PRIMARY KEY, holder varbinary(64))",
		},
		commits: "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'QUESTIONS'",
	}
	return d.start(ctx, d, func(t testing.TB) error {
		// The sizes are MariaDB's defaults. With the small ones of the tests it reads three pages from the disk per
		// lock.
		server := servers.MariaDB(t, servers.Args("--innodb-flush-log-at-trx-commit=1",
			"--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M"))
		d.db, d.where, d.pid = server.DB(t), server.URL("root", "", "bench"), server.Pid
		return d.meet(ctx)
	})
}

// meet asks a server that has started for its version, and takes the round trip: the median of many queries that do
// nothing.
func (d *database) meet(ctx context.Context) (err error) {
	if err := d.db.QueryRowContext(ctx, "SELECT version()").Scan(&d.version); err != nil {
		return err
	}
	d.version, _, _ = strings.Cut(d.version, " on ")
	times := make([]time.Duration, 500)
	statement, err := d.db.PrepareContext(ctx, "SELECT 1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, statement.Close()) }()
	for i := range times {
		start := time.Now()
		if err := statement.QueryRowContext(ctx).Scan(new(int)); err != nil {
			return err
		}
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	d.roundTrip = times[len(times)/2]
	return nil
}

// Fresh removes all tables.
func (d *database) Fresh(ctx context.Context) (string, error) {
	for _, statement := range d.clear {
		if _, err := d.db.ExecContext(ctx, statement); err != nil {
			return d.where, err
		}
	}
	return d.where, nil
}

// Usage has the processor time of the server with all of its processes.
func (d *database) Usage(ctx context.Context) (usage, error) {
	u := usage{known: true}
	if err := d.db.QueryRowContext(ctx, d.commits).Scan(&u.commands); err != nil {
		return u, err
	}
	err := u.addCPU(d.pid(), true)
	return u, err
}

// ticksPerSecond is the unit of times in /proc.
const ticksPerSecond = 100

// addCPU adds the processor time of a process and of its children, perhaps also of those that have ended.
func (u *usage) addCPU(pid int, ended bool) error {
	ticks, err := ticksOf(pid, ended)
	u.cpu += time.Duration(ticks) * time.Second / ticksPerSecond
	return err
}

// ticksOf returns the processor time of a process, of its children, and of those that have ended.
func ticksOf(pid int, ended bool) (ticks int64, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	times := fields[11:13] // utime and stime
	if ended {
		times = fields[11:15] // and those of children that were waited for
	}
	for _, field := range times {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // that thread has ended
		}
		if err != nil {
			return 0, err
		}
		for _, child := range strings.Fields(string(text)) {
			id, err := strconv.Atoi(child)
			if err != nil {
				return 0, err
			}
			n, err := ticksOf(id, false)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return 0, err
			}
			ticks += n
		}
	}
	return ticks, nil
}

// About also says how long a round trip took when the server was started.
func (d *database) About() string {
	return fmt.Sprintf("%s, on loopback, with fsync; a round trip takes %v",
		d.version, d.roundTrip.Round(time.Microsecond))
}
