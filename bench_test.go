package holdfast_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// floor is the least that a lock with a context could cost: to make and cancel one context, and to put an entry
// into a guarded map and take it out again.
func floor(ctx context.Context, mu *sync.Mutex, entries map[string]int) {
	_, cancel := context.WithCancelCause(ctx)
	mu.Lock()
	entries["x"] = 1
	mu.Unlock()
	mu.Lock()
	delete(entries, "x")
	mu.Unlock()
	cancel(nil)
}

func lockUnlock(b *testing.B, ctx context.Context, m *holdfast.Mutex) {
	l, err := m.Lock(ctx)
	if err == nil {
		err = l.Unlock(ctx)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkUncontended reports what Lock and Unlock cost, and how often the floor that is: both are measured in
// turns, and the median of the ratios counts. At most 4.
func BenchmarkUncontended(b *testing.B) {
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	ctx, m := context.Background(), locks.Mutex("x")
	var mu sync.Mutex
	entries := map[string]int{}
	b.ReportAllocs()
	b.Run("Lock+Unlock", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			lockUnlock(b, ctx, m)
		}
	})
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			floor(ctx, &mu, entries)
		}
	})
	b.Run("ratio", func(b *testing.B) {
		const turn = 2000
		var ratios []float64
		for b.Loop() {
			began := time.Now()
			for range turn {
				floor(ctx, &mu, entries)
			}
			half := time.Now()
			for range turn {
				lockUnlock(b, ctx, m)
			}
			ratios = append(ratios, float64(time.Since(half))/float64(half.Sub(began)))
		}
		b.ReportMetric(median(ratios), "x-floor")
		b.ReportMetric(0, "ns/op")
	})
}

// BenchmarkContended is 64 goroutines on one name, with hand-over inside the process and without. With it must be
// at least three times as fast.
func BenchmarkContended(b *testing.B) {
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	with, without := locks.Mutex("x"), locks.Mutex("y", holdfast.WithHandOver(0, 0))
	const turn = 20_000
	contend := func(m *holdfast.Mutex) time.Duration {
		var wg sync.WaitGroup
		began := time.Now()
		for range 64 {
			wg.Go(func() {
				for range turn / 64 {
					lockUnlock(b, context.Background(), m)
				}
			})
		}
		wg.Wait()
		return time.Since(began)
	}
	var ratios, each []float64
	for b.Loop() {
		slow, fast := contend(without), contend(with)
		ratios = append(ratios, float64(slow)/float64(fast))
		each = append(each, float64(fast)/turn)
	}
	b.ReportMetric(median(ratios), "x-without")
	b.ReportMetric(median(each), "ns/lock")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkHundredThousandLeases reports what each costs in heap, and what keeping all of them once costs. At
// most 1 KiB, and 300 ms of CPU.
func BenchmarkHundredThousandLeases(b *testing.B) {
	const leases = 100_000
	var heap, cpu, goroutines []float64
	for b.Loop() {
		names := make([]string, leases)
		for i := range names {
			names[i] = fmt.Sprint("lease:", i)
		}
		before, idle := heapInUse(), runtime.NumGoroutine()
		locks := holdfast.New(memstore.New(), holdfast.WithTTL(time.Minute))
		for _, name := range names {
			if _, err := locks.Mutex(name).Lock(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		goroutines = append(goroutines, float64(runtime.NumGoroutine()-idle))
		heap = append(heap, float64(heapInUse()-before)/leases)
		began := cpuTime()
		locks.KeepAll()
		cpu = append(cpu, float64(cpuTime()-began)/float64(time.Millisecond))
		locks.Close()
	}
	b.ReportMetric(median(heap), "heap-B/lease")
	b.ReportMetric(median(cpu), "cpu-ms/keep-all")
	b.ReportMetric(median(goroutines), "goroutines")
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkDrain reports how much longer 10,000 waiters on one name take to be served than 1,000. At most 12.
func BenchmarkDrain(b *testing.B) {
	var ratios, each []float64
	for b.Loop() {
		var few time.Duration
		for range 10 {
			few += drain(b, 1_000) / 10
		}
		many := drain(b, 10_000)
		ratios = append(ratios, float64(many)/float64(few))
		each = append(each, float64(many)/10_000)
	}
	b.ReportMetric(median(ratios), "x-for-10x")
	b.ReportMetric(median(each), "ns/waiter")
}

// drain measures how long it takes until each of n waiters in the store's queue has held the lock.
func drain(b *testing.B, n int) time.Duration {
	locks := holdfast.New(memstore.New(), holdfast.WithHandOver(0, 0))
	defer locks.Close()
	ctx, m := context.Background(), locks.Mutex("x")
	first, err := m.Lock(ctx)
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { lockUnlock(b, ctx, m) })
	}
	for locks.Waiting() < n {
		runtime.Gosched()
	}
	runtime.GC() // what the making of waiters left behind is not the draining's
	began := time.Now()
	if err := first.Unlock(ctx); err != nil {
		b.Fatal(err)
	}
	wg.Wait()
	return time.Since(began)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// BenchmarkReentrant takes a lock again under its own lease. It costs no call of the store.
func BenchmarkReentrant(b *testing.B) {
	n := &detour{Store: memstore.New()}
	locks := holdfast.New(n)
	defer locks.Close()
	m := locks.Mutex("x", holdfast.WithReentrance())
	outer, err := m.Lock(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	ctx := outer.Context()
	calls := func() int64 { return n.joins.Load() + n.keeps.Load() + n.leaves.Load() }
	before := calls()
	b.ReportAllocs()
	for b.Loop() {
		lockUnlock(b, ctx, m)
	}
	b.ReportMetric(float64(calls()-before)/float64(b.N), "store-calls/op")
}

// A counter counts calls, and costs nothing else.
type counter struct {
	store.Store
	joins, leaves atomic.Int64
}

func (n *counter) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	n.joins.Add(1)
	return n.Store.Join(ctx, c)
}

func (n *counter) Leave(ctx context.Context, c store.Claim) error {
	n.leaves.Add(1)
	return n.Store.Leave(ctx, c)
}

// BenchmarkLockAll takes ten locks and gives them back. It costs ten Joins and ten Leaves.
func BenchmarkLockAll(b *testing.B) {
	n := &counter{Store: memstore.New()}
	locks := holdfast.New(n)
	defer locks.Close()
	var parts []holdfast.Part
	for i := range 10 {
		parts = append(parts, locks.Mutex(fmt.Sprint("part:", i)))
	}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		all, err := holdfast.LockAll(ctx, parts...)
		if err == nil {
			err = all.Unlock(ctx)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n.joins.Load())/float64(b.N), "joins/op")
	b.ReportMetric(float64(n.leaves.Load())/float64(b.N), "leaves/op")
}
