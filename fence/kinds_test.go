package fence_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// What a fence promises of whatever kind it is: a gate in memory, a row of a database, or a key in Redis.

// A kind is a fence and the ledger that it protects.
type kind struct {
	enter    func(holdfast.Token) error
	seen     func() (holdfast.Token, error)
	setFloor func(holdfast.Token) error
	write    func(token holdfast.Token, entry string) error // appends to the ledger, behind the fence
	unfenced func(entry string) error                       // appends to the ledger
	ledger   func() []string
}

// newGate makes a fence in memory.
func newGate(*testing.T) *kind {
	var gate fence.Gate
	var entries []string
	add := func(entry string) error { entries = append(entries, entry); return nil }
	return &kind{
		enter:    gate.Enter,
		seen:     func() (holdfast.Token, error) { return gate.Seen(), nil },
		setFloor: func(token holdfast.Token) error { gate.SetFloor(token); return nil },
		write: func(token holdfast.Token, entry string) error {
			return gate.Do(token, func() error { return add(entry) })
		},
		unfenced: add,
		ledger:   func() []string { return entries },
	}
}

// newRow makes a fence in SQLite.
func newRow(t *testing.T) *kind { return newRowAt(t, fenced) }

// newRowAt makes a fence in a database.
func newRowAt(t *testing.T, at site) *kind {
	t.Helper()
	// The database may not number the entries: it gives numbers out before their transactions end, or not in order.
	db, fences := at(t, "CREATE TABLE ledger (seq BIGINT PRIMARY KEY, entry VARCHAR(64) NOT NULL)")
	db.SetMaxOpenConns(8)
	row := fences.Row("ledger")
	insert := "INSERT INTO ledger SELECT coalesce(max(seq), 0) + 1, ? FROM ledger"
	if fences.Dialect == fence.PostgreSQL {
		insert = strings.Replace(insert, "?", "$1", 1)
	}
	return &kind{
		enter:    func(token holdfast.Token) error { return row.Enter(t.Context(), db, token) },
		seen:     func() (holdfast.Token, error) { return row.Seen(t.Context(), db) },
		setFloor: func(token holdfast.Token) error { return row.SetFloor(t.Context(), db, token) },
		write: func(token holdfast.Token, entry string) error {
			return row.Do(t.Context(), db, token, func(tx *sql.Tx) error {
				return second(tx.ExecContext(t.Context(), insert, entry))
			})
		},
		unfenced: func(entry string) error { return second(db.ExecContext(t.Context(), insert, entry)) },
		ledger: func() (entries []string) {
			rows, err := db.QueryContext(t.Context(), "SELECT entry FROM ledger ORDER BY seq")
			testkit.Must(t, err)
			defer rows.Close()
			for rows.Next() {
				var entry string
				testkit.Must(t, rows.Scan(&entry))
				entries = append(entries, entry)
			}
			testkit.Must(t, rows.Err())
			return entries
		},
	}
}

// newKey makes a fence in Redis.
func newKey(t *testing.T) *kind {
	t.Helper()
	db := redis(t)
	key, data := fence.Key{Redis: db, Name: "{ledger}:fence"}, []string{"{ledger}"}
	return &kind{
		enter:    func(token holdfast.Token) error { return key.Enter(t.Context(), token) },
		seen:     func() (holdfast.Token, error) { return key.Seen(t.Context()) },
		setFloor: func(token holdfast.Token) error { return key.SetFloor(t.Context(), token) },
		write: func(token holdfast.Token, entry string) error {
			return second(key.Do(t.Context(), token, push, data, entry))
		},
		unfenced: func(entry string) error { return second(db.Eval(t.Context(), push, data, []string{entry})) },
		ledger: func() (entries []string) {
			for _, entry := range eval(t, db, `return redis.call('LRANGE', KEYS[1], 0, -1)`, data...).([]any) {
				entries = append(entries, entry.(string))
			}
			return entries
		},
	}
}

func second[T any](_ T, err error) error { return err }

func TestGateRefusesOlder(t *testing.T) { refusesOlder(t, newGate(t)) }
func TestRowRefusesOlder(t *testing.T)  { refusesOlder(t, newRow(t)) }
func TestKeyRefusesOlder(t *testing.T)  { refusesOlder(t, newKey(t)) }

func refusesOlder(t *testing.T, k *kind) {
	for _, token := range []holdfast.Token{older, older, newer, newer} {
		if err := k.enter(token); err != nil {
			t.Fatalf("Enter(%v): %v", token, err)
		}
	}
	wantStale(t, k.enter(older), older, newer)
	wantStale(t, k.write(older, "late"), older, newer)
	if entries := k.ledger(); len(entries) != 0 {
		t.Errorf("a stale write was let in: %q", entries)
	}
	if seen, err := k.seen(); seen != newer || err != nil {
		t.Errorf("a refused token moved the fence to %v, %v", seen, err)
	}
}

func TestGateIsCheckedButNeverRaisedByShared(t *testing.T) { neverRaisedByShared(t, newGate(t)) }
func TestRowIsCheckedButNeverRaisedByShared(t *testing.T)  { neverRaisedByShared(t, newRow(t)) }
func TestKeyIsCheckedButNeverRaisedByShared(t *testing.T)  { neverRaisedByShared(t, newKey(t)) }

func neverRaisedByShared(t *testing.T, k *kind) {
	if err := k.enter(reader); err != nil {
		t.Fatalf("a reader before any writer: %v", err)
	}
	testkit.Must(t, errors.Join(k.enter(older), k.enter(reader)))
	if seen, _ := k.seen(); seen != older {
		t.Fatalf("a shared token raised the fence to %v", seen)
	}
	testkit.Must(t, k.enter(newer))
	wantStale(t, k.enter(reader), reader, newer)
}

func TestGateRefusesNoToken(t *testing.T) { refusesNoToken(t, newGate(t)) }
func TestRowRefusesNoToken(t *testing.T)  { refusesNoToken(t, newRow(t)) }
func TestKeyRefusesNoToken(t *testing.T)  { refusesNoToken(t, newKey(t)) }

func refusesNoToken(t *testing.T, k *kind) {
	wantStale(t, k.enter(0), 0, 0)
	testkit.Must(t, k.enter(older))
	wantStale(t, k.enter(0), 0, older)
}

func TestGateFloor(t *testing.T) { hasFloor(t, newGate(t)) }
func TestRowFloor(t *testing.T)  { hasFloor(t, newRow(t)) }
func TestKeyFloor(t *testing.T)  { hasFloor(t, newKey(t)) }

func hasFloor(t *testing.T, k *kind) {
	if seen, err := k.seen(); seen != 0 || err != nil {
		t.Fatalf("a new fence has seen %v, %v", seen, err)
	}
	for _, floor := range []holdfast.Token{newer, reader, 1<<64 - 1, newer} { // up, down, and to the end
		testkit.Must(t, k.setFloor(floor))
		wantStale(t, k.enter(older), older, floor)
	}
	testkit.Must(t, k.setFloor(0))
	if err := k.enter(older); err != nil {
		t.Fatalf("after a reset: %v", err)
	}
}

// TestLateWriter plays the schedule that no lock can prevent: a holder pauses beyond its lease and writes when
// it wakes up. Without the fence its write lands on top of its successor's, with it, it is refused.
func TestLateWriter(t *testing.T) { refusesLateWriter(t, newGate) }

// TestRowLateWriter is TestLateWriter in a database.
func TestRowLateWriter(t *testing.T) { refusesLateWriter(t, newRow) }

// TestKeyLateWriter is TestLateWriter in Redis.
func TestKeyLateWriter(t *testing.T) { refusesLateWriter(t, newKey) }

func refusesLateWriter(t *testing.T, newKind func(*testing.T) *kind) {
	var late, successor holdfast.Token
	synctest.Test(t, func(t *testing.T) { late, successor = twoHolders(t) })
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprintf("fenced=%v", guarded), func(t *testing.T) {
			k := newKind(t)
			write := k.write
			if !guarded {
				write = func(_ holdfast.Token, entry string) error { return k.unfenced(entry) }
			}
			testkit.Must(t, write(successor, "successor"))
			err := write(late, "late writer")
			entries := k.ledger()
			checkLate(t, guarded, entries[len(entries)-1], err, late, successor)
		})
	}
}

// checkLate demands that a fence has refused a late write, and that the control without one has not.
func checkLate(t *testing.T, guarded bool, entry string, err error, late, successor holdfast.Token) {
	t.Helper()
	if guarded {
		wantStale(t, err, late, successor)
		if entry != "successor" {
			t.Errorf("the late write was let in: %q", entry)
		}
	} else if entry != "late writer" || err != nil {
		t.Errorf("the control kept %q, %v: it cannot show that the fence is needed", entry, err)
	}
}

func TestRowIsRaisedOnEntry(t *testing.T) { isRaisedOnEntry(t, newRow) }
func TestKeyIsRaisedOnEntry(t *testing.T) { isRaisedOnEntry(t, newKey) }

// isRaisedOnEntry has a late writer between the read and the write of the new holder.
func isRaisedOnEntry(t *testing.T, newKind func(*testing.T) *kind) {
	for _, enter := range []bool{false, true} {
		t.Run(fmt.Sprintf("enter=%v", enter), func(t *testing.T) {
			k := newKind(t)
			if enter {
				testkit.Must(t, k.enter(newer))
			}
			k.ledger() // the new holder reads
			late := k.write(older, "50")
			testkit.Must(t, k.write(newer, "70"))
			if enter {
				wantStale(t, late, older, newer)
			} else if late != nil {
				t.Errorf("the control refused the late write: %v. It cannot show that Enter is needed", late)
			}
		})
	}
}

func TestGateUnderManyGoroutines(t *testing.T) { neverGoesBack(t, newGate(t), 200) }
func TestRowUnderManyGoroutines(t *testing.T)  { neverGoesBack(t, newRow(t), 64) }
func TestKeyUnderManyGoroutines(t *testing.T)  { neverGoesBack(t, newKey(t), 256) }

// neverGoesBack has writers with rising tokens in random order, and the first row made by many at once. No token is
// written after a greater exclusive one, and the last holder has written.
func neverGoesBack(t *testing.T, k *kind, writers int) {
	var wg sync.WaitGroup
	var last holdfast.Token
	for _, n := range rand.Perm(writers) {
		token := holdfast.Token(n+1)<<8 | holdfast.Token(n%3%2)<<7 // some are shared
		last = max(last, token)
		wg.Go(func() {
			if err := k.write(token, fence.Pad(token)); err != nil && !errors.Is(err, holdfast.ErrStale) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var written []holdfast.Token
	var highest holdfast.Token
	for _, text := range k.ledger() {
		token, err := holdfast.ParseToken(text)
		testkit.Must(t, err)
		if token < highest {
			t.Errorf("%v wrote after %v", token, highest)
		}
		if !token.Shared() {
			highest = max(highest, token)
		}
		written = append(written, token)
	}
	if !slices.Contains(written, last) {
		t.Errorf("the last holder, %v, was refused: written were %v", last, written)
	}
}
