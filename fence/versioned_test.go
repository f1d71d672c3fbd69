package fence_test

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

var items = itemsIn(fence.SQLite)

func itemsIn(d fence.Dialect) fence.Versioned {
	return fence.Versioned{Dialect: d, Table: "items", Key: "id"}
}

// shop is a database with one item.
func shop(t *testing.T) *sql.DB {
	db, _, _ := shopAt(t, fenced)
	return db
}

func shopAt(t *testing.T, at site) (*sql.DB, fence.Table, fence.Versioned) {
	t.Helper()
	db, fences := at(
		t,
		"CREATE TABLE items (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, note TEXT, version BIGINT NOT NULL "+
			"DEFAULT 0)",
		"INSERT INTO items (id, stock) VALUES (42, 10)",
	)
	return db, fences, itemsIn(fences.Dialect)
}

// TestVersionedLateWriter has two that have read the same version. The second to write would undo the first.
func TestVersionedLateWriter(t *testing.T) { versionedLateWriter(t, fenced) }

func versionedLateWriter(t *testing.T, at site) {
	for _, versioned := range []bool{false, true} {
		t.Run(fmt.Sprintf("versioned=%v", versioned), func(t *testing.T) {
			db, _, items := shopAt(t, at)
			sell := func(version int64, stock int) error {
				if !versioned {
					_, err := db.ExecContext(t.Context(),
						fmt.Sprintf("UPDATE items SET stock = %d WHERE id = 42", stock))
					return err
				}
				return items.Update(t.Context(), db, 42, version, fence.Columns{"stock": stock})
			}
			var stock int
			version, err := items.Read(t.Context(), db, 42, fence.Columns{"stock": &stock})
			if err != nil || stock != 10 || version != 0 {
				t.Fatal(stock, version, err)
			}
			testkit.Must(t, sell(version, stock-1))
			late := sell(version, stock-3)
			left := value[int](t, db, "SELECT stock FROM items")
			if !versioned {
				if left != 7 || late != nil {
					t.Errorf("the control has %d left, %v: it cannot show that the version is needed", left, late)
				}
				return
			}
			var stale *fence.VersionError
			if !errors.Is(late, holdfast.ErrStale) || !errors.As(late, &stale) || stale.Version != 0 ||
				stale.Current != 1 ||
				stale.Gone {
				t.Errorf("got %v, want a VersionError with both versions", late)
			}
			if left != 9 {
				t.Errorf("the late write was let in: %d left", left)
			}
		})
	}
}

func TestVersionedGone(t *testing.T) { versionedGone(t, fenced) }

func versionedGone(t *testing.T, at site) {
	db, _, items := shopAt(t, at)
	err := items.Update(t.Context(), db, 43, 7, fence.Columns{"stock": 1})
	var stale *fence.VersionError
	if !errors.Is(err, holdfast.ErrStale) || !errors.As(err, &stale) || !stale.Gone || stale.Version != 7 {
		t.Errorf("got %v, want a VersionError that says gone", err)
	}
	if _, err := items.Read(t.Context(), db, 43, nil); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("Read of no row: %v", err)
	}
}

// TestVersionedInATransaction is the second belt: inside of a fence, and gone with its transaction.
func TestVersionedInATransaction(t *testing.T) { versionedInATransaction(t, fenced) }

func versionedInATransaction(t *testing.T, at site) {
	db, fences, items := shopAt(t, at)
	broken := errors.New("broken")
	for _, want := range []error{broken, nil} {
		err := fences.Row("item:42").Do(t.Context(), db, newer, func(tx *sql.Tx) error {
			note := sql.NullString{}
			version, err := items.Read(t.Context(), tx, 42, fence.Columns{"note": &note})
			if err != nil || note.Valid {
				t.Error(note, err)
			}
			testkit.Check(t, items.Update(t.Context(), tx, 42, version, fence.Columns{"note": "sold", "stock": 0}))
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if version, err := items.Read(t.Context(), db, 42, nil); version != 1 || err != nil {
		t.Errorf("version %d, %v: want 1", version, err)
	}
}

// TestVersionedLosesNoUpdate has many that count one number up, each again until it was not refused.
func TestVersionedLosesNoUpdate(t *testing.T) { versionedLosesNoUpdate(t, fenced) }

func versionedLosesNoUpdate(t *testing.T, at site) {
	db, _, items := shopAt(t, at)
	db.SetMaxOpenConns(8)
	const each, many = 5, 8
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			for done := 0; done < each; {
				var stock int
				version, err := items.Read(t.Context(), db, 42, fence.Columns{"stock": &stock})
				if err == nil {
					err = items.Update(t.Context(), db, 42, version, fence.Columns{"stock": stock + 1})
				}
				if err == nil {
					done++
				} else if !errors.Is(err, holdfast.ErrStale) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if stock := value[int](t, db, "SELECT stock FROM items"); stock != 10+each*many {
		t.Errorf("counted to %d, want %d", stock, 10+each*many)
	}
}

func TestStatementsOfVersioned(t *testing.T) {
	set := fence.Columns{"stock": int64(9), "note": "x"}
	cases := map[fence.Dialect][]string{
		fence.SQLite: {
			"UPDATE `shop`.`items` SET `note` = ?, `stock` = ?, `rev` = `rev` + 1 WHERE `id` = ? AND `rev` = ? | x " +
				"| 9 | 42 | 3",
			"SELECT `rev` FROM `shop`.`items` WHERE `id` = ? | 42",
		},
		fence.PostgreSQL: {
			`UPDATE "shop"."items" SET "note" = $1, "stock" = $2, "rev" = "rev" + 1 WHERE "id" = $3 AND "rev" = $4 | x | 9 | 42 | 3`,
			`SELECT "rev" FROM "shop"."items" WHERE "id" = $1 | 42`,
		},
		fence.MySQL: {
			"UPDATE `shop`.`items` SET `note` = ?, `stock` = ?, `rev` = `rev` + 1 WHERE `id` = ? AND `rev` = ? | x " +
				"| 9 | 42 | 3",
			"SELECT `rev` FROM `shop`.`items` WHERE `id` = ? FOR UPDATE | 42",
		},
	}
	for dialect, want := range cases {
		w := &wire{answer: func(string) ([]driver.Value, error) { return []driver.Value{int64(4)}, nil }}
		v := fence.Versioned{Dialect: dialect, Table: "shop.items", Key: "id", Version: "rev"}
		db := w.open(t)
		var stale *fence.VersionError
		if err := v.Update(t.Context(), db, 42, 3, set); !errors.As(err, &stale) || stale.Version != 3 ||
			stale.Current != 4 {
			t.Errorf("%v: no row was affected: got %v", dialect, err)
		}
		w.wantSent(t, want...)
		w.counts = 1
		if err := v.Update(t.Context(), db, 42, 3, set); err != nil {
			t.Errorf("%v: %v", dialect, err)
		}
		w.wantSent(t, want[0])
		w.counts = 2
		if err := v.Update(t.Context(), db, 42, 3, set); !errors.Is(err, holdfast.ErrBadOption) {
			t.Errorf("%v: two rows were written: got %v", dialect, err)
		}
	}
}

// TestVersionedRefusedForAnUnknownReason cannot find out what the row is at. It is a refusal all the same.
func TestVersionedRefusedForAnUnknownReason(t *testing.T) {
	down := errors.New("connection reset")
	w := &wire{answer: func(query string) ([]driver.Value, error) {
		if strings.HasPrefix(query, "SELECT") {
			return nil, down
		}
		return nil, nil
	}}
	err := items.Update(t.Context(), w.open(t), 42, 3, nil)
	if !errors.Is(err, holdfast.ErrStale) || !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
}

func TestVersionedIdentifiers(t *testing.T) {
	plain := fence.Columns{"stock": 1}
	cases := map[string]struct {
		v   fence.Versioned
		set fence.Columns
	}{
		"table":             {fence.Versioned{Dialect: fence.SQLite, Table: "items; --", Key: "id"}, plain},
		"no table":          {fence.Versioned{Dialect: fence.SQLite, Key: "id"}, plain},
		"key":               {fence.Versioned{Dialect: fence.SQLite, Table: "items", Key: "id = id OR id"}, plain},
		"no key":            {fence.Versioned{Dialect: fence.SQLite, Table: "items"}, plain},
		"version":           {fence.Versioned{Dialect: fence.SQLite, Table: "items", Key: "id", Version: "a.b"}, plain},
		"column":            {items, fence.Columns{"stock = 0, note": 1}},
		"the version again": {items, fence.Columns{"Version": 1}},
		"no dialect":        {fence.Versioned{Table: "items", Key: "id"}, plain},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := &wire{}
			if err := c.v.Update(t.Context(), w.open(t), 42, 0, c.set); !errors.Is(err, holdfast.ErrBadOption) {
				t.Errorf("got %v", err)
			}
			w.wantSent(t)
		})
	}
	// A column that is not there must be an error, and never a string that is compared with the key.
	if _, err := (fence.Versioned{Dialect: fence.SQLite, Table: "items", Key: "sku"}).Read(t.Context(), shop(t), "sku",
		nil); err == nil {
		t.Error("a column that is not there was read")
	}
}
