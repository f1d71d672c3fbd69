package demo

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast"
)

const (
	olderToken = holdfast.Token(7 << 8)
	newerToken = holdfast.Token(8 << 8)
)

// TestLateWriteToTheStock plays the schedule of every round: one reads, another sells, the first writes.
func TestLateWriteToTheStock(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		path := newStock(t, 10)
		first, second := openTestStock(t, path, fenced), openTestStock(t, path, fenced)
		first.checkLeft(t, olderToken, 10)
		for item := 10; item > 5; item-- {
			second.checkLeft(t, newerToken, item)
			must(t, second.sell(t.Context(), newerToken, item, 2))
		}
		err := first.sell(t.Context(), olderToken, 10, 1)
		if fenced {
			if !errors.Is(err, holdfast.ErrStale) {
				t.Errorf("the fence says %v of the late write", err)
			}
			second.checkLeft(t, newerToken, 5)
			second.checkSales(t, 5)
			if _, err := first.read(t.Context(), olderToken); !errors.Is(err, holdfast.ErrStale) {
				t.Errorf("the fence says %v of a late read", err)
			}
			continue
		}
		must(t, err)
		second.checkLeft(t, newerToken, 9) // five sales undone
		second.checkSales(t, 6)
	}
}

func TestStockWithAnyPath(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a b?mode=memory&c#d%20e")
	must(t, os.Mkdir(folder, 0o700))
	path := filepath.Join(folder, "stock.db")
	must(t, makeStock(t.Context(), path, 3))
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	openTestStock(t, path, false).checkLeft(t, 0, 3)
}

func openTestStock(t *testing.T, path string, fenced bool) *stock {
	t.Helper()
	s, err := openStock(path, fenced)
	must(t, err)
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *stock) checkLeft(t *testing.T, token holdfast.Token, want int) {
	t.Helper()
	got, err := s.read(t.Context(), token)
	must(t, err)
	if got != want {
		t.Errorf("%d are left, want %d", got, want)
	}
}

func (s *stock) checkSales(t *testing.T, want int) {
	t.Helper()
	got, err := s.count(t.Context())
	must(t, err)
	if got != want {
		t.Errorf("%d sales, want %d", got, want)
	}
}
