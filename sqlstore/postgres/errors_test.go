package postgres_test

import (
	"context"
	"database/sql"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// TestRolledBackByServer: a call that the server rolls back, since others are in its way, is repeated, and its caller
// sees nothing of it.
func TestRolledBackByServer(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	const blocked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type " +
		"= 'Lock'"
	const lock = "UPDATE holdfast.slots SET mark = mark WHERE slot = $1"
	for name, test := range map[string]struct {
		setting string
		// meddle is called with a transaction that has locked the second of two slots, once a Keep waits for it that
		// has locked the first.
		meddle func(t *testing.T, tx *sql.Tx, first int)
	}{
		"serialisation": { // 40001, when the transaction commits
			"default_transaction_isolation = 'repeatable read'", func(*testing.T, *sql.Tx, int) {},
		},
		"deadlock": { // 40P01, which is noticed by the one that waits first
			"deadlock_timeout = '1s'", func(t *testing.T, tx *sql.Tx, first int) {
				_, err := tx.ExecContext(t.Context(), "SET LOCAL deadlock_timeout = '10min'")
				testkit.Must(t, err)
				_, err = tx.ExecContext(t.Context(), lock, first)
				testkit.Must(t, err)
			},
		},
		"timeout": { // 55P03
			"lock_timeout = '10ms'", func(t *testing.T, tx *sql.Tx, _ int) {
				_, err := tx.ExecContext(t.Context(), "SELECT pg_sleep(0.2)")
				testkit.Must(t, err)
			},
		},
	} {
		url, db := database(t, server, name, test.setting)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testkit.Open(t, url)
			claims := []store.Claim{
				testkit.Held(t, s,
					testkit.Claim("a", time.Minute)), testkit.Held(t, s, testkit.Claim("b", time.Minute)),
			}
			first, second := slot(t, db, "min"), slot(t, db, "max")
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
			defer cancel()
			tx, err := db.BeginTx(ctx, nil)
			testkit.Must(t, err)
			defer tx.Rollback()
			_, err = tx.ExecContext(ctx, lock, second)
			testkit.Must(t, err)
			kept := make(chan error, 1)
			go func() {
				statuses, err := s.Keep(ctx, claims)
				if err == nil && (statuses[0].State != store.Held || statuses[1].State != store.Held) {
					t.Errorf("%+v", statuses)
				}
				kept <- err
			}()
			testkit.Await(t, "Keep waits", func() bool { return scalar(t, db, blocked) == "1" })
			test.meddle(t, tx, first)
			select {
			case err := <-kept:
				t.Fatalf("Keep ended early: %v", err)
			default:
			}
			testkit.Must(t, tx.Commit())
			testkit.Must(t, <-kept)
		})
	}
}

// slot returns the lowest or the highest slot of the names in use.
func slot(t *testing.T, db *sql.DB, which string) int {
	t.Helper()
	n, err := strconv.Atoi(scalar(t, db, "SELECT "+which+"(slot) FROM holdfast.claims"))
	testkit.Must(t, err)
	return n
}
