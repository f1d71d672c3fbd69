package servers

import (
	"database/sql"
	"testing"
)

// inDatabase returns a way to open clients that have a database of their own, which is made if it is missing.
func inDatabase(m *MariaDBServer) func(testing.TB) *sql.DB {
	return func(t testing.TB) *sql.DB {
		db := m.DB(t)
		db.SetMaxOpenConns(1) // the choice is the connection's
		for _, statement := range []string{"CREATE DATABASE IF NOT EXISTS d", "USE d"} {
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
		}
		return db
	}
}

func TestMariaDBRestart(t *testing.T) {
	m := MariaDB(t)
	testSQLRestart(t, m.Server, inDatabase(m))
}

func TestMariaDBPause(t *testing.T) {
	m := MariaDB(t)
	testSQLPause(t, m.Server, m.DB(t))
}

func TestMariaDBOptions(t *testing.T) {
	for _, test := range []struct {
		name    string
		options []Option
		query   string
		want    string
	}{
		{"no fsync", nil, "SELECT @@innodb_flush_log_at_trx_commit", "2"},
		{"args win", []Option{Args("--innodb-flush-log-at-trx-commit=1")}, "SELECT @@innodb_flush_log_at_trx_commit",
			"1"},
		{"password", []Option{Password("correct 'horse'")}, "SELECT CURRENT_USER()", "root@127.0.0.1"},
		{"certificates", []Option{TLS(NewCertificates(t))},
			"SELECT variable_value <> '' FROM information_schema.session_status WHERE variable_name = 'ssl_cipher'",
			"1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := scalar(t, MariaDB(t, test.options...).DB(t), test.query); got != test.want {
				t.Errorf("%s: %s, want %s", test.query, got, test.want)
			}
		})
	}
}

// What the options forbid must be forbidden.
func TestMariaDBRefuses(t *testing.T) {
	for name, option := range map[string]Option{
		"password":     Password("correct horse"),
		"certificates": TLS(NewCertificates(t)),
	} {
		t.Run(name, func(t *testing.T) {
			db, err := sql.Open("mysql", "root@tcp("+MariaDB(t, option).Addr()+")/")
			check(t, err)
			defer db.Close()
			if db.Ping() == nil {
				t.Error("a stranger was let in")
			}
		})
	}
}

func TestMariaDBClock(t *testing.T) {
	clock := NewClock(t)
	db := MariaDB(t, Env(clock.Env()...)).DB(t)
	testSQLClock(t, clock, db, "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)")
}
