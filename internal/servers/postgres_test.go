package servers

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"
)

// scalar runs a query that must work, and returns the one value that it yields as text.
func scalar(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	var value any
	if err := db.QueryRow(query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	if text, ok := value.([]byte); ok {
		value = string(text)
	}
	return fmt.Sprint(value)
}

// execute runs a statement that must work.
func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// testSQLRestart is testRestart for a server that speaks SQL. Each step has a client of its own.
func testSQLRestart(t *testing.T, s *Server, open func(testing.TB) *sql.DB) {
	t.Helper()
	testRestart(t, s,
		func(value string) {
			execute(t, open(t), "CREATE TABLE IF NOT EXISTS one (v VARCHAR(10))")
			execute(t, open(t), "DELETE FROM one")
			execute(t, open(t), "INSERT INTO one VALUES ('"+value+"')")
		},
		func() string {
			count := "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'one'"
			if scalar(t, open(t), count) == "0" {
				return "<nil>"
			}
			return scalar(t, open(t), "SELECT v FROM one")
		})
}

func TestPostgresRestart(t *testing.T) {
	p := Postgres(t)
	testSQLRestart(t, p.Server, p.DB)
}

// A connection that is open stands still too while the server is paused, and goes on after it.
func TestPostgresPause(t *testing.T) {
	p := Postgres(t)
	testSQLPause(t, p.Server, p.DB(t))
}

func testSQLPause(t *testing.T, s *Server, db *sql.DB) {
	t.Helper()
	conn, err := db.Conn(context.Background())
	check(t, err)
	defer conn.Close()
	check(t, conn.PingContext(context.Background()))
	check(t, s.Pause())
	answered := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(context.Background(), "SELECT 1")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a paused server answered: %v", err)
	case <-time.After(200 * time.Millisecond):
		check(t, s.Continue())
		check(t, <-answered)
	}
}

// The process that serves a client ends with a server that is killed. One that stops does not wait for the client.
func TestPostgresEndsItsClients(t *testing.T) {
	p := Postgres(t)
	for name, end := range map[string]func() error{"stop": p.Stop, "kill": p.Kill} {
		db := p.DB(t)
		answered := make(chan error, 1)
		go func() {
			_, err := db.Exec("SELECT pg_sleep(600)")
			answered <- err
		}()
		await(t, "query", func() bool {
			return scalar(t, db, "SELECT COUNT(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'") == "1"
		})
		children, err := childrenOf(p.Pid())
		check(t, err)
		began := time.Now()
		check(t, end())
		if took := time.Since(began); took > stopPatience/2 {
			t.Errorf("%s took %v", name, took)
		}
		for _, pid := range children {
			if !isGone(pid) {
				t.Errorf("%s: the child %d of the server outlived it", name, pid)
			}
		}
		if err := <-answered; err == nil {
			t.Errorf("%s: the query of a server that has ended was answered", name)
		}
		check(t, p.Start())
	}
}

func TestPostgresOptions(t *testing.T) {
	certificates := NewCertificates(t)
	for _, test := range []struct {
		name    string
		options []Option
		query   string
		want    string
	}{
		{"no fsync", nil, "SHOW fsync", "off"},
		{"args win", []Option{Args("-c", "fsync=on")}, "SHOW fsync", "on"},
		{"password", []Option{Password("correct 'horse'")}, "SHOW password_encryption", "scram-sha-256"},
		{"certificates", []Option{TLS(certificates)}, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
			"true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := scalar(t, Postgres(t, test.options...).DB(t), test.query); got != test.want {
				t.Errorf("%s: %s, want %s", test.query, got, test.want)
			}
		})
	}
}

// What the options forbid must be forbidden.
func TestPostgresRefuses(t *testing.T) {
	for name, option := range map[string]Option{
		"password":     Password("correct horse"),
		"certificates": TLS(NewCertificates(t)),
	} {
		t.Run(name, func(t *testing.T) {
			stranger := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", Postgres(t, option).Addr())
			db, err := sql.Open("pgx", stranger)
			check(t, err)
			defer db.Close()
			if db.Ping() == nil {
				t.Error("a stranger was let in")
			}
		})
	}
}

func TestPostgresClock(t *testing.T) {
	clock := NewClock(t)
	db := Postgres(t, Env(clock.Env()...)).DB(t)
	testSQLClock(t, clock, db, "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)")
}

// testSQLClock demands that the clock of a server, in microseconds, follows the steps.
func testSQLClock(t *testing.T, clock *Clock, db *sql.DB, query string) {
	t.Helper()
	for _, step := range []time.Duration{0, 90 * time.Second, -3 * time.Hour, time.Hour} {
		clock.Step(step)
		before := time.Now().Add(clock.Offset()).Truncate(time.Microsecond)
		var micros int64
		check(t, db.QueryRow(query).Scan(&micros))
		after := time.Now().Add(clock.Offset())
		if now := time.UnixMicro(micros); now.Before(before) || now.After(after) {
			t.Errorf("after a step of %v the server says %v, want from %v to %v", step, now, before, after)
		}
	}
}
