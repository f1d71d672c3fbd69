package fence_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// seen answers every query with a token.
func seen(token holdfast.Token) func(string) ([]driver.Value, error) {
	return func(string) ([]driver.Value, error) { return []driver.Value{fence.Pad(token)}, nil }
}

const (
	pgRaise = `INSERT INTO "locks"."fences" AS f (name, token, raised_at) VALUES ($1, $2, CURRENT_TIMESTAMP) ` +
		`ON CONFLICT (name) DO UPDATE SET ` +
		`token = CASE WHEN f.token < excluded.token THEN excluded.token ELSE f.token END, ` +
		`raised_at = CASE WHEN f.token < excluded.token THEN excluded.raised_at ELSE f.raised_at END ` +
		`RETURNING token`
	mysqlRaise = "INSERT INTO `holdfast_fences` (name, token, raised_at) VALUES (?, ?, UTC_TIMESTAMP()) " +
		"ON DUPLICATE KEY UPDATE raised_at = CASE WHEN token < ? THEN UTC_TIMESTAMP() ELSE raised_at END, " +
		"token = CASE WHEN token < ? THEN ? ELSE token END"
	mysqlReadLocked = "SELECT token FROM `holdfast_fences` WHERE name = ? FOR UPDATE"

	zeros     = " | 00000000000000000000"
	newerText = " | 00000000000000002304"
)

func TestStatementsOfPostgreSQL(t *testing.T) {
	w := &wire{answer: seen(newer)}
	db, fences := w.open(t), fence.Table{Dialect: fence.PostgreSQL, Name: "locks.fences"}
	row := fences.Row("ledger")

	testkit.Must(t, errors.Join(fences.Create(t.Context(), db), row.SetFloor(t.Context(), db, newer)))
	if got, err := row.Seen(t.Context(), db); got != newer || err != nil {
		t.Errorf("seen %v, %v", got, err)
	}
	w.wantSent(t,
		`CREATE TABLE IF NOT EXISTS "locks"."fences" ( name text COLLATE "C" PRIMARY KEY, `+
			`token text COLLATE "C" NOT NULL CHECK (length(token) = 20), raised_at timestamptz NOT NULL )`,
		`INSERT INTO "locks"."fences" (name, token, raised_at) VALUES ($1, $2, CURRENT_TIMESTAMP) `+
			`ON CONFLICT (name) DO UPDATE SET token = excluded.token, raised_at = excluded.raised_at | ledger`+newerText,
		`SELECT token FROM "locks"."fences" WHERE name = $1 | ledger`)

	write := func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE ledger")
		return err
	}
	testkit.Check(t, row.Do(t.Context(), db, newer, write))
	w.wantSent(t, "BEGIN", pgRaise+" | ledger"+newerText, "UPDATE ledger", "COMMIT")
	wantStale(t, row.Do(t.Context(), db, reader, write), reader, newer)
	w.wantSent(t, "BEGIN", pgRaise+" | ledger"+zeros, "ROLLBACK")
}

// TestStatementsOfMySQL has a server that counts a row which keeps its value as not affected, as MySQL does.
func TestStatementsOfMySQL(t *testing.T) {
	w := &wire{answer: seen(newer), counts: 0}
	db, fences := w.open(t), fence.Table{Dialect: fence.MySQL}
	row := fences.Row("ledger")

	testkit.Must(t, errors.Join(fences.Create(t.Context(), db), row.SetFloor(t.Context(), db, newer)))
	w.wantSent(t,
		"CREATE TABLE IF NOT EXISTS `holdfast_fences` ( name VARBINARY(512) NOT NULL PRIMARY KEY, "+
			"token CHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL CHECK (length(token) = 20), "+
			"raised_at DATETIME NOT NULL ) ENGINE=InnoDB",
		"INSERT INTO `holdfast_fences` (name, token, raised_at) VALUES (?, ?, UTC_TIMESTAMP()) "+
			"ON DUPLICATE KEY UPDATE raised_at = UTC_TIMESTAMP(), token = ? | ledger"+newerText+newerText)

	if err := row.Do(t.Context(), db, newer, func(*sql.Tx) error { return nil }); err != nil {
		t.Errorf("the same token again: %v", err)
	}
	w.wantSent(t, "BEGIN", mysqlRaise+" | ledger"+strings.Repeat(newerText, 4), mysqlReadLocked+" | ledger", "COMMIT")
	wantStale(t, row.Enter(t.Context(), db, reader), reader, newer)
	w.wantSent(t, mysqlRaise+" | ledger"+strings.Repeat(zeros, 4), mysqlReadLocked+" | ledger")
}

// TestRowBelievesNothingElse has answers that are no token. None may be taken for a fence that is low.
func TestRowBelievesNothingElse(t *testing.T) {
	answers := map[string][]driver.Value{
		"no row":            nil,
		"NULL":              {nil},
		"a number":          {int64(older)},
		"not padded":        {"1792"},
		"a double":          {float64(older)},
		"more than a token": {"00000000000000001792 "},
		"too large":         {"99999999999999999999"},
		"signed":            {"+0000000000000001792"},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			for _, dialect := range []fence.Dialect{fence.SQLite, fence.PostgreSQL, fence.MySQL} {
				w := &wire{answer: func(string) ([]driver.Value, error) { return answer, nil }}
				db := w.open(t)
				err := fence.Table{Dialect: dialect}.Row("ledger").Do(t.Context(), db, newer, func(*sql.Tx) error {
					t.Errorf("%v: the write was let in", dialect)
					return nil
				})
				if err == nil || errors.Is(err, holdfast.ErrStale) {
					t.Errorf("%v: got %v, want an error that is no refusal", dialect, err)
				}
			}
		})
	}
}

// TestRowErrorsAreNoRefusals fails each step of Do in turn.
func TestRowErrorsAreNoRefusals(t *testing.T) {
	down := errors.New("connection reset")
	for _, dialect := range []fence.Dialect{fence.PostgreSQL, fence.MySQL} {
		for _, step := range []string{"BEGIN", "INSERT", "SELECT", "COMMIT"} {
			if step == "SELECT" && dialect != fence.MySQL {
				continue // it has no such step
			}
			w := &wire{answer: func(query string) ([]driver.Value, error) {
				if strings.HasPrefix(query, step) {
					return nil, down
				}
				return seen(newer)(query)
			}}
			err := fence.Table{
				Dialect: dialect,
			}.Row("ledger").
				Do(t.Context(), w.open(t), newer, func(*sql.Tx) error { return nil })
			if !errors.Is(err, down) || errors.Is(err, holdfast.ErrStale) ||
				!strings.HasPrefix(err.Error(), "holdfast: ") {
				t.Errorf("%v, %s fails: got %v", dialect, step, err)
			}
		}
	}
}

// TestCreateAgain includes what PostgreSQL may do to the slower of two that create a table at once.
func TestCreateAgain(t *testing.T) {
	db, fences := fenced(t)
	testkit.Must(t, fences.Row("ledger").Enter(t.Context(), db, newer))
	if err := fences.Create(t.Context(), db); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if got, err := fences.Row("ledger").Seen(t.Context(), db); got != newer || err != nil {
		t.Errorf("the fence has seen %v, %v", got, err)
	}

	refused := errors.New("duplicate key value")
	for _, exists := range []bool{true, false} {
		w := &wire{answer: func(query string) ([]driver.Value, error) {
			if exists && strings.HasPrefix(query, "SELECT") {
				return nil, nil
			}
			return nil, refused
		}}
		err := fence.Table{Dialect: fence.PostgreSQL}.Create(t.Context(), w.open(t))
		if exists != (err == nil) || !exists && !errors.Is(err, refused) {
			t.Errorf("CREATE was refused, and the table exists is %v: got %v", exists, err)
		}
	}
}

// TestIdentifiers shows that nothing but a plain identifier gets into a statement.
func TestIdentifiers(t *testing.T) {
	for _, dialect := range []fence.Dialect{fence.SQLite, fence.PostgreSQL, fence.MySQL} {
		for _, name := range []string{"fences", "_f", "F2", "order", "main.fences", strings.Repeat("x", 63)} {
			if _, err := (fence.Table{Dialect: dialect, Name: name}).DDL(); err != nil {
				t.Errorf("%v, %q: %v", dialect, name, err)
			}
		}
		bad := []string{
			"a b", `a"`, "a`", "a'", "a;", "a--", "a)", "2a", "é", "a\n", "a?", "$1", "%s", ".a", "a.", "a..b", "a.b.c",
			"a.b c",
			strings.Repeat("x", 64),
		}
		for _, name := range bad {
			w := &wire{}
			db, fences := w.open(t), fence.Table{Dialect: dialect, Name: name}
			_, seen := fences.Row("r").Seen(t.Context(), db)
			_, ddl := fences.DDL()
			for _, err := range []error{
				ddl, seen, fences.Create(t.Context(), db), fences.Row("r").Enter(t.Context(), db, newer),
				fences.Row("r").SetFloor(t.Context(), db, newer),
			} {
				if !errors.Is(err, holdfast.ErrBadOption) {
					t.Errorf("%v, %q: got %v", dialect, name, err)
				}
			}
			w.wantSent(t)
		}
	}
	for _, dialect := range []fence.Dialect{0, 4} {
		if _, err := (fence.Table{Dialect: dialect}).DDL(); !errors.Is(err, holdfast.ErrBadOption) {
			t.Errorf("%v: %v", dialect, err)
		}
	}
}
