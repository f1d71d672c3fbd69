package contend

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// Whoever does not get through a rush is missed, and so is a lock that is none.
func TestRush(t *testing.T) {
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	semaphore := func(ctx context.Context) (*holdfast.Lease,
		error) {
		return locks.Semaphore("pool", 4).Acquire(ctx, 1)
	}
	if err := Rush(t.Context(), 200, 4, semaphore); err != nil {
		t.Error(err)
	}
	if err := Rush(t.Context(), 2000, 1, semaphore); err == nil || strings.Contains(err.Error(), " 0 beside too many") {
		t.Errorf("four may hold at once, and that is not noticed: %v", err)
	}
	var n atomic.Int64
	err := Rush(t.Context(), 20, 1, func(ctx context.Context) (*holdfast.Lease, error) {
		if n.Add(1) == 7 {
			return nil, errors.New("sent away")
		}
		return locks.Mutex("one").Lock(ctx)
	})
	if err == nil || !strings.Contains(err.Error(), "19 of 20 got through") ||
		!strings.Contains(err.Error(), "sent away") {
		t.Errorf("one was sent away, and what comes of it is: %v", err)
	}
}

// Processes that take a lock once hold it one after the other; where it is no lock for them, or no store, that is told.
func TestOnce(t *testing.T) {
	url := sqliteURL(t)
	if err := Once(within(t, patience), t.TempDir(), "one", url, url, url); err != nil {
		t.Error(err)
	}
	if err := Once(within(t, patience), t.TempDir(), "one", url, "sqlite:"+t.TempDir()); err == nil {
		t.Error("a process has no store, and nobody notices")
	}
	if err := Once(within(t, patience), t.TempDir(), strings.Repeat("x", 5000), url); err == nil {
		t.Error("a process gets no lock, and nobody notices")
	}
}
