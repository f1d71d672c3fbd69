package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

func TestWithLockTheMoneyAddsUp(t *testing.T) {
	for _, test := range []struct {
		name          string
		shares, users int
	}{
		{"more users than shares", 10, 40},
		{"more shares than users", 40, 10},
		{"as many", 20, 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newTestHost(t, split(10000, test.shares))
			came := clickTwice(t.Context(), h, test.users)
			draws := min(test.shares, test.users)
			clicks := came.drew + came.late + came.again + came.busy
			if came.drew != draws || came.failed != 0 || clicks != 2*test.users {
				t.Errorf("%+v, want %d draws and no failure", came, draws)
			}
			found := h.packet.audit()
			if err := found.problem(); err != nil {
				t.Errorf("%v: %+v", err, found)
			}
			if draws == test.shares && found.paid != 10000 {
				t.Errorf("%d cents paid of 10000", found.paid)
			}
			if found.users != 0 || found.shares != 0 || found.unordered {
				t.Errorf("%+v", found)
			}
		})
	}
}

// TestWithoutLockADoubleClickPaysTwice needs no luck: each click waits until the other has looked too.
func TestWithoutLockADoubleClickPaysTwice(t *testing.T) {
	h := &host{packet: &packet{shares: []int{70, 30}}, work: meeting(2)}
	came := clickTwice(t.Context(), h, 1)
	if came.drew != 2 {
		t.Errorf("%+v, want 2 draws", came)
	}
	found := h.packet.audit()
	if found.users != 1 || found.shares != 1 || found.paid != 140 || found.left != 30 || found.problem() == nil {
		t.Errorf("%+v, problem: %v", found, found.problem())
	}
}

func TestImpatientClick(t *testing.T) {
	h := newTestHost(t, []int{70, 30})
	lease, err := h.locks.Mutex(lockName).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := h.drawNow(t.Context(), 1); !errors.Is(err, errBusy) {
		t.Errorf("while somebody draws: %v", err)
	}
	if err := lease.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		user int
		want error
	}{{1, nil}, {1, errDrewBefore}, {2, nil}, {3, errEmpty}} {
		if err := h.drawNow(t.Context(), test.user); !errors.Is(err, test.want) {
			t.Errorf("user %d: %v, want %v", test.user, err, test.want)
		}
	}
}

func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(t, []int{100})
		lease, err := h.locks.Mutex(lockName).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Unlock(t.Context())
		start := time.Now()
		err = h.draw(t.Context(), 1)
		if !errors.Is(err, holdfast.ErrLocked) || time.Since(start) != patience {
			t.Errorf("%v after %v, want ErrLocked after %v", err, time.Since(start), patience)
		}
		if n := len(h.packet.draws); n != 0 {
			t.Errorf("%d draws", n)
		}
	})
}

func TestClosedLocksDrawNothing(t *testing.T) {
	h := newTestHost(t, []int{100})
	if err := h.locks.Close(); err != nil {
		t.Fatal(err)
	}
	came := clickTwice(t.Context(), h, 3)
	if came.failed != 6 || !errors.Is(came.failure, holdfast.ErrClosed) || len(h.packet.draws) != 0 {
		t.Errorf("%+v and %d draws", came, len(h.packet.draws))
	}
}

func newTestHost(t *testing.T, shares []int) *host {
	t.Helper()
	locks := holdfast.New(memstore.New())
	t.Cleanup(func() {
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
	})
	return &host{locks: locks, packet: &packet{shares: shares}, work: pause(100 * time.Microsecond)}
}

// meeting makes work that is done when n draws are at it at the same time.
func meeting(n int32) func(context.Context) error {
	var arrived atomic.Int32
	all := make(chan struct{})
	return func(ctx context.Context) error {
		if arrived.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
