package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestRowNamesAreExact has names that a database may take for one another, or for SQL.
func TestRowNamesAreExact(t *testing.T) { namesAreExact(t, fenced) }

func namesAreExact(t *testing.T, at site) {
	db, fences := at(t)
	for i, name := range []string{"a", "A", "a ", " a", "ä", "a\u0308", `'; DROP TABLE holdfast_fences; --`, "?", "$1",
		"%s", strings.Repeat("x", 512)} {
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
func TestRowDoWritesAllOrNothing(t *testing.T) { writesAllOrNothing(t, fenced) }

func writesAllOrNothing(t *testing.T, at site) {
	broken := errors.New("broken")
	cases := map[string]struct {
		token holdfast.Token
		end   func(cancel context.CancelCauseFunc) error
		want  error
	}{
		"the write fails": {newer, func(context.CancelCauseFunc) error { return broken }, broken},
		"the lease is over": {
			newer,
			func(cancel context.CancelCauseFunc) error { cancel(holdfast.ErrLost); return nil },
			holdfast.ErrLost,
		},
		"the token is stale": {older - 1, func(context.CancelCauseFunc) error { return nil }, holdfast.ErrStale},
		"the write panics":   {newer, func(context.CancelCauseFunc) error { panic(broken) }, broken},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			db, fences := at(t, "CREATE TABLE log (token TEXT)")
			row := fences.Row("ledger")
			testkit.Must(t, row.Enter(t.Context(), db, older))
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

// TestRowIsLockedDuringTheWrite holds a write open, and a newer holder must not get in beside it. That is so for a
// shared token too, though it does not raise the fence.
func TestRowIsLockedDuringTheWrite(t *testing.T) { isLockedDuringTheWrite(t, fenced) }

func isLockedDuringTheWrite(t *testing.T, at site) {
	for _, token := range []holdfast.Token{older, reader} {
		t.Run(fmt.Sprintf("shared=%v", token.Shared()), func(t *testing.T) {
			db, fences := at(t)
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
			testkit.Check(t, errors.Join(err, <-entered))
		})
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
