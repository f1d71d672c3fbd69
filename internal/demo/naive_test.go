package demo

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// naivePair is a naive lock as two processes see it, each with a wall clock of its own.
func naivePair(t *testing.T) (a, b *naive) {
	t.Helper()
	clock := time.Now()
	pair := [2]*naive{}
	path := newStock(t, 1)
	for i := range pair {
		s := openTestStock(t, path, false)
		pair[i] = newNaive(s.db, "stock", time.Second)
		pair[i].wall = func() time.Time { return clock }
	}
	return pair[0], pair[1]
}

func newStock(t *testing.T, items int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "stock.db")
	must(t, makeStock(t.Context(), path, items))
	return path
}

// ahead sets a process's wall clock forward.
func (n *naive) ahead(d time.Duration) {
	now := n.wall().Add(d)
	n.wall = func() time.Time { return now }
}

func (n *naive) check(t *testing.T, who string, want bool) {
	t.Helper()
	taken, err := n.try(t.Context())
	must(t, err)
	if taken != want {
		t.Fatalf("%s: taken is %v, want %v", who, taken, want)
	}
}

func TestNaiveLockWorksWhileNobodyIsSlow(t *testing.T) {
	a, b := naivePair(t)
	a.check(t, "the first", true)
	b.check(t, "one who comes while it is held", false)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.acquire(ctx); err == nil {
		t.Fatal("two hold it")
	}
	must(t, a.release(t.Context()))
	b.check(t, "one who comes after it was released", true)
}

func TestNaiveMistakeNobodyRenews(t *testing.T) {
	a, b := naivePair(t)
	a.check(t, "one who will be slow", true)
	a.ahead(time.Second)
	b.ahead(time.Second)
	b.check(t, "the next, when the ttl is over", true)
	if a.hold().until() != forever {
		t.Error("the slow one has noticed: then this is no naive lock")
	}
}

func TestNaiveMistakeWallClock(t *testing.T) {
	a, b := naivePair(t)
	b.ahead(2 * time.Second)
	a.check(t, "one with the right time", true)
	b.check(t, "one whose clock is ahead, at the same moment", true)
}

func TestNaiveMistakeDeletesAnothersLock(t *testing.T) {
	a, b := naivePair(t)
	a.check(t, "one who will be slow", true)
	b.ahead(time.Second)
	b.check(t, "the next", true)
	must(t, a.release(t.Context()))
	a.check(t, "a third, while the second holds it", true)
}

func TestNaiveMistakeNoToken(t *testing.T) {
	a, _ := naivePair(t)
	if a.hold().token != 0 {
		t.Error("it has a token: then a fence could stop it")
	}
}
