package sqlite

import (
	"database/sql"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// BenchmarkUncontended acquires and releases a lock without contention, and beside it, in turns, does one bare INSERT
// and one bare DELETE, each a transaction of its own, on the same file. x-bare is how many times longer the lock takes.
// Rounds are interleaved, since the machine's mood changes; the median of them counts.
func BenchmarkUncontended(b *testing.B) {
	path := filepath.Join(b.TempDir(), "locks.db")
	locks, err := holdfast.Open(b.Context(), "sqlite:"+path)
	check(b, err)
	defer locks.Close()
	mutex := locks.Mutex("inventory:42")
	bare := openBare(b, path)

	const round = 100
	var ratios []float64
	var locked time.Duration
	n := 0
	for b.Loop() {
		bareTook := timed(round, func() { bare(b) })
		lockTook := timed(round, func() {
			lease, err := mutex.Lock(b.Context())
			check(b, err)
			check(b, lease.Unlock(b.Context()))
		})
		ratios = append(ratios, float64(lockTook)/float64(bareTook))
		locked += lockTook
		n += round
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-bare")
	b.ReportMetric(float64(locked.Nanoseconds())/float64(n), "ns/lock")
}

func timed(n int, do func()) time.Duration {
	start := time.Now()
	for range n {
		do()
	}
	return time.Since(start)
}

// openBare is the floor: what SQLite itself needs to write a row and delete it, by prepared statements.
func openBare(b *testing.B, path string) func(*testing.B) {
	db, err := sql.Open("sqlite", source(path))
	check(b, err)
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { db.Close() })
	if _, err := db.Exec("CREATE TABLE bare (name TEXT PRIMARY KEY, owner TEXT) STRICT"); err != nil {
		b.Fatal(err)
	}
	insert, err := db.Prepare("INSERT INTO bare VALUES (?, ?)")
	check(b, err)
	remove, err := db.Prepare("DELETE FROM bare WHERE name = ?")
	check(b, err)
	b.Cleanup(func() { insert.Close(); remove.Close() })
	return func(b *testing.B) {
		if _, err := insert.Exec("inventory:42", "somebody"); err != nil {
			b.Fatal(err)
		}
		if _, err := remove.Exec("inventory:42"); err != nil {
			b.Fatal(err)
		}
	}
}
