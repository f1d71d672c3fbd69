//go:build !race

package holdfast_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// TestAllocations: what a lock costs in allocations on a store that costs few itself. An Observer that is not set
// costs nothing.
func TestAllocations(t *testing.T) {
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	unlock := func(l *holdfast.Lease, err error) {
		check(err)
		check(l.Unlock(ctx))
	}
	mutex, reader, pool := locks.Mutex("x"), locks.RWMutex("y"), locks.Semaphore("z", 5)
	again := locks.Mutex("outer", holdfast.WithReentrance())
	outer, err := again.Lock(ctx)
	check(err)
	defer outer.Unlock(ctx)
	parts := mutexes(locks, "d", "c", "b", "a")
	for _, test := range []struct {
		what string
		most float64
		run  func()
	}{
		{"Lock and Unlock", 12, func() { unlock(mutex.Lock(ctx)) }},
		{"TryLock and Unlock", 12, func() { unlock(mutex.TryLock(ctx)) }},
		{"RLock and Unlock", 12, func() { unlock(reader.RLock(ctx)) }},
		{"Acquire and Unlock", 12, func() { unlock(pool.Acquire(ctx, 2)) }},
		{"Lock again and Unlock", 4, func() { unlock(again.Lock(outer.Context())) }},
		{"LockAll of four and Unlock", 4 * 25, func() {
			m, err := holdfast.LockAll(ctx, parts...)
			check(err)
			check(m.Unlock(ctx))
		}},
	} {
		got := testing.AllocsPerRun(1000, test.run)
		t.Logf("%s: %v", test.what, got)
		if got > test.most {
			t.Errorf("%s: %v allocations, at most %v", test.what, got, test.most)
		}
	}
}
