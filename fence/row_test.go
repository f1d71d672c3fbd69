package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

func TestRowRefusesOlder(t *testing.T) {
	db, fences := fenced(t)
	row := fences.Row("ledger")
	for _, token := range []holdfast.Token{older, older, newer, newer} {
		if err := row.Enter(t.Context(), db, token); err != nil {
			t.Fatalf("Enter(%v): %v", token, err)
		}
	}
	wantStale(t, row.Enter(t.Context(), db, older), older, newer)
	err := row.Do(t.Context(), db, older, func(*sql.Tx) error { t.Error("a stale write was let in"); return nil })
	wantStale(t, err, older, newer)
	if seen, err := row.Seen(t.Context(), db); seen != newer || err != nil {
		t.Errorf("a refused token moved the fence to %v, %v", seen, err)
	}
}

func TestRowIsCheckedButNeverRaisedByShared(t *testing.T) {
	db, fences := fenced(t)
	row := fences.Row("ledger")
	if err := row.Enter(t.Context(), db, reader); err != nil {
		t.Fatalf("a reader before any writer: %v", err)
	}
	if err := errors.Join(row.Enter(t.Context(), db, older), row.Enter(t.Context(), db, reader)); err != nil {
		t.Fatal(err)
	}
	if seen, _ := row.Seen(t.Context(), db); seen != older {
		t.Fatalf("a shared token raised the fence to %v", seen)
	}
	if err := row.Enter(t.Context(), db, newer); err != nil {
		t.Fatal(err)
	}
	wantStale(t, row.Enter(t.Context(), db, reader), reader, newer)
}

func TestRowRefusesNoToken(t *testing.T) {
	db, fences := fenced(t)
	row := fences.Row("ledger")
	wantStale(t, row.Enter(t.Context(), db, 0), 0, 0)
	if err := row.Enter(t.Context(), db, older); err != nil {
		t.Fatal(err)
	}
	wantStale(t, row.Enter(t.Context(), db, 0), 0, older)
}

func TestRowFloor(t *testing.T) {
	db, fences := fenced(t)
	row := fences.Row("ledger")
	if seen, err := row.Seen(t.Context(), db); seen != 0 || err != nil {
		t.Fatalf("a new fence has seen %v, %v", seen, err)
	}
	for _, floor := range []holdfast.Token{newer, reader, 1<<64 - 1, newer} { // up, down, and to the end
		if err := row.SetFloor(t.Context(), db, floor); err != nil {
			t.Fatal(err)
		}
		wantStale(t, row.Enter(t.Context(), db, older), older, floor)
	}
	if err := row.SetFloor(t.Context(), db, 0); err != nil {
		t.Fatal(err)
	}
	if err := row.Enter(t.Context(), db, older); err != nil {
		t.Fatalf("after a reset: %v", err)
	}
}

// TestRowNamesAreExact has names that a database may take for one another, or for SQL.
func TestRowNamesAreExact(t *testing.T) {
	db, fences := fenced(t)
	for i, name := range []string{"a", "A", "a ", " a", "ä", "a\u0308", `'; DROP TABLE holdfast_fences; --`, "?", "$1", "%s", strings.Repeat("x", 512)} {
		token := holdfast.Token(100-i) << 8
		if err := fences.Row(name).Enter(t.Context(), db, token); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if seen, err := fences.Row(name).Seen(t.Context(), db); seen != token || err != nil {
			t.Errorf("%q has seen %v, %v", name, seen, err)
		}
	}
	for _, name := range []string{"", "a\x00", "\xff", strings.Repeat("x", 513)} {
		row := fences.Row(name)
		_, seen := row.Seen(t.Context(), db)
		for _, err := range []error{row.Enter(t.Context(), db, newer), row.SetFloor(t.Context(), db, newer), seen} {
			if !errors.Is(err, holdfast.ErrBadName) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

// TestRowDoWritesAllOrNothing ends a write in every way that it can end other than well.
func TestRowDoWritesAllOrNothing(t *testing.T) {
	broken := errors.New("broken")
	cases := map[string]struct {
		token holdfast.Token
		end   func(cancel context.CancelCauseFunc) error
		want  error
	}{
		"the write fails":    {newer, func(context.CancelCauseFunc) error { return broken }, broken},
		"the lease is over":  {newer, func(cancel context.CancelCauseFunc) error { cancel(holdfast.ErrLost); return nil }, holdfast.ErrLost},
		"the token is stale": {older - 1, func(context.CancelCauseFunc) error { return nil }, holdfast.ErrStale},
		"the write panics":   {newer, func(context.CancelCauseFunc) error { panic(broken) }, broken},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			db, fences := fenced(t, "CREATE TABLE log (token TEXT)")
			row := fences.Row("ledger")
			if err := row.Enter(t.Context(), db, older); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			err := func() (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = p.(error)
					}
				}()
				return row.Do(ctx, db, c.token, func(tx *sql.Tx) error {
					if _, err := tx.ExecContext(ctx, "INSERT INTO log VALUES ('x')"); err != nil {
						t.Error(err)
					}
					return c.end(cancel)
				})
			}()
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if n := value[int](t, db, "SELECT count(*) FROM log"); n != 0 {
				t.Error("it was written")
			}
			if seen, _ := row.Seen(t.Context(), db); seen != older {
				t.Errorf("the fence is at %v, and nothing passed but %v", seen, older)
			}
		})
	}
}

// TestRowLateWriter is TestLateWriter in a database.
func TestRowLateWriter(t *testing.T) {
	var late, successor holdfast.Token
	synctest.Test(t, func(t *testing.T) { late, successor = twoHolders(t) })
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprintf("fenced=%v", guarded), func(t *testing.T) {
			db, fences := fenced(t, "CREATE TABLE ledger (entry TEXT)", "INSERT INTO ledger VALUES ('')")
			row := fences.Row("ledger")
			write := func(token holdfast.Token, entry string) error {
				const update = "UPDATE ledger SET entry = ?"
				if !guarded {
					_, err := db.ExecContext(t.Context(), update, entry)
					return err
				}
				return row.Do(t.Context(), db, token, func(tx *sql.Tx) error {
					_, err := tx.ExecContext(t.Context(), update, entry)
					return err
				})
			}
			if err := write(successor, "successor"); err != nil {
				t.Fatal(err)
			}
			err := write(late, "late writer")
			entry := value[string](t, db, "SELECT entry FROM ledger")
			if guarded {
				wantStale(t, err, late, successor)
				if entry != "successor" {
					t.Errorf("the late write was let in: %q", entry)
				}
			} else if entry != "late writer" || err != nil {
				t.Errorf("the control kept %q, %v: it cannot show that the fence is needed", entry, err)
			}
		})
	}
}

// TestRowIsRaisedOnEntry has a late writer between the read and the write of the new holder.
func TestRowIsRaisedOnEntry(t *testing.T) {
	for _, enter := range []bool{false, true} {
		t.Run(fmt.Sprintf("enter=%v", enter), func(t *testing.T) {
			db, fences := fenced(t, "CREATE TABLE account (balance INTEGER)", "INSERT INTO account VALUES (100)")
			row := fences.Row("account")
			update := func(token holdfast.Token, balance int) error {
				return row.Do(t.Context(), db, token, func(tx *sql.Tx) error {
					_, err := tx.ExecContext(t.Context(), "UPDATE account SET balance = ?", balance)
					return err
				})
			}
			if enter {
				if err := row.Enter(t.Context(), db, newer); err != nil {
					t.Fatal(err)
				}
			}
			balance := value[int](t, db, "SELECT balance FROM account")
			late := update(older, 50)
			if err := update(newer, balance-30); err != nil {
				t.Fatal(err)
			}
			if enter {
				wantStale(t, late, older, newer)
			} else if late != nil {
				t.Errorf("the control refused the late write: %v. It cannot show that Enter is needed", late)
			}
		})
	}
}

// TestRowIsLockedDuringTheWrite holds a write open, and a newer holder must not get in beside it. That is so for a
// shared token too, though it does not raise the fence.
func TestRowIsLockedDuringTheWrite(t *testing.T) {
	for _, token := range []holdfast.Token{older, reader} {
		t.Run(fmt.Sprintf("shared=%v", token.Shared()), func(t *testing.T) {
			db, fences := fenced(t)
			row := fences.Row("ledger")
			entered := make(chan error, 1)
			err := row.Do(t.Context(), db, token, func(*sql.Tx) error {
				go func() { entered <- row.Enter(t.Context(), db, newer) }()
				select {
				case err := <-entered:
					t.Errorf("a newer holder got in while an older one was writing: %v", err)
					entered <- nil
				case <-time.After(100 * time.Millisecond):
				}
				return nil
			})
			if err := errors.Join(err, <-entered); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRowUnderManyGoroutines has writers with rising tokens in random order, and the first row made by many at once.
// The sequence of what was written never goes back.
func TestRowUnderManyGoroutines(t *testing.T) {
	db, fences := fenced(t, "CREATE TABLE log (seq INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL)")
	db.SetMaxOpenConns(8)
	row := fences.Row("ledger")
	var wg sync.WaitGroup
	var last holdfast.Token
	for _, n := range rand.Perm(64) {
		token := holdfast.Token(n+1)<<8 | holdfast.Token(n%3%2)<<7 // some are shared
		last = max(last, token)
		wg.Go(func() {
			err := row.Do(t.Context(), db, token, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), "INSERT INTO log (token) VALUES (?)", fence.Pad(token))
				return err
			})
			if err != nil && !errors.Is(err, holdfast.ErrStale) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	checkNeverBack(t, db, last)
}

// checkNeverBack reads the log: no token comes after a greater exclusive one, and the last holder has written.
func checkNeverBack(t *testing.T, db *sql.DB, last holdfast.Token) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT token FROM log ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var written []holdfast.Token
	var highest holdfast.Token
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		token, err := holdfast.ParseToken(text)
		if err != nil {
			t.Fatal(err)
		}
		if token < highest {
			t.Errorf("%v wrote after %v", token, highest)
		}
		if !token.Shared() {
			highest = max(highest, token)
		}
		written = append(written, token)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(written, last) {
		t.Errorf("the last holder, %v, was refused: written were %v", last, written)
	}
}

func TestPad(t *testing.T) {
	tokens := []holdfast.Token{0, 9, 10, older, reader, newer, 1<<53 + 1, 1<<53 + 2, 1<<63 - 1, 1<<64 - 1}
	for i, token := range tokens {
		text := fence.Pad(token)
		if len(text) != 20 {
			t.Errorf("%v has %d digits", token, len(text))
		}
		if i > 0 && text <= fence.Pad(tokens[i-1]) {
			t.Errorf("as text, %v is not after %v", token, tokens[i-1])
		}
	}
	if back, err := holdfast.ParseToken(fence.Pad(newer)); back != newer || err != nil {
		t.Errorf("ParseToken gives %v, %v", back, err)
	}
}
