package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

func ExampleMutex_Do() {
	ctx := context.Background()
	locks, err := holdfast.Open(ctx, "memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	err = locks.Mutex("inventory:42").Do(ctx, func(ctx context.Context) error {
		_, ok := holdfast.TokenFrom(ctx) // to be passed along with each write
		fmt.Println("alone, with a token:", ok)
		return nil
	})
	fmt.Println(err)
	// Output:
	// alone, with a token: true
	// <nil>
}

func ExampleMutex_Lock() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()

	lease, err := locks.Mutex("inventory:42", holdfast.WithTTL(10*time.Second)).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", lease.Err() == nil)
	fmt.Println("renewed:", time.Until(lease.Until()) > 5*time.Second)

	fmt.Println("released:", lease.Unlock(ctx) == nil)
	fmt.Println(lease.Err())
	// Output:
	// held: true
	// renewed: true
	// released: true
	// holdfast: not held: it was unlocked
}

func ExampleMutex_TryLock() {
	ctx := context.Background()
	server := memstore.NewServer() // stands for the server that all processes use
	here, elsewhere := holdfast.New(server.Connect()), holdfast.New(server.Connect(), holdfast.WithLabel("nightly"))
	defer here.Close()
	defer elsewhere.Close()

	lease, err := elsewhere.Mutex("report").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	_, err = here.Mutex("report").TryLock(ctx)
	var locked *holdfast.LockedError
	if errors.As(err, &locked) {
		fmt.Println("locked by", locked.Holder.Label)
	}
	// Output: locked by nightly
}

func ExampleRWMutex() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	prices := locks.RWMutex("prices")

	one, err := prices.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	two, err := prices.RLock(ctx) // readers share
	if err != nil {
		log.Fatal(err)
	}
	_, err = prices.TryLock(ctx) // a writer does not
	fmt.Println("a writer beside readers:", errors.Is(err, holdfast.ErrLocked))

	one.Unlock(ctx)
	two.Unlock(ctx)
	writer, err := prices.Lock(ctx)
	fmt.Println("a writer alone:", err)
	writer.Unlock(ctx)
	// Output:
	// a writer beside readers: true
	// a writer alone: <nil>
}

func ExampleLease_Downgrade() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	index := locks.RWMutex("index")

	writer, err := index.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	// Rebuild the index. Then admit readers, but no other writer while it is checked.
	reader, err := writer.Downgrade(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Unlock(ctx)

	other, err := index.TryRLock(ctx)
	fmt.Println("another reader:", err)
	other.Unlock(ctx)
	_, err = index.TryLock(ctx)
	fmt.Println("another writer:", errors.Is(err, holdfast.ErrLocked))
	// Output:
	// another reader: <nil>
	// another writer: true
}

func ExampleSemaphore() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	workers := locks.Semaphore("gpu", 4) // four units, wherever they are used

	three, err := workers.Acquire(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	_, err = workers.TryAcquire(ctx, 2)
	fmt.Println("two more:", errors.Is(err, holdfast.ErrLocked))
	three.Unlock(ctx)
	two, err := workers.TryAcquire(ctx, 2)
	fmt.Println("two now:", err)
	two.Unlock(ctx)
	// Output:
	// two more: true
	// two now: <nil>
}

// A lease is lost when it cannot be renewed, or when an operator breaks it. Its context ends at that moment.
func ExampleLease_Context() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()

	lease, err := locks.Mutex("import").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := locks.Break(ctx, "import", lease.Token()); err != nil {
		log.Fatal(err)
	}
	<-lease.Context().Done()
	fmt.Println(context.Cause(lease.Context()))
	fmt.Println(errors.Is(lease.Unlock(ctx), holdfast.ErrLost))
	// Output:
	// holdfast: hold "import" on memory: lease lost: the store no longer has it
	// true
}

// WithWait bounds the wait for a lock. The error names the holder.
func ExampleWait() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	lease, err := locks.Mutex("job").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	_, err = locks.Mutex("job", holdfast.WithWait(100*time.Millisecond)).Lock(ctx)
	var locked *holdfast.LockedError
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.As(err, &locked) && locked.Token == lease.Token())
	// Output: true true
}

func ExampleClient_Inspect() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New(), holdfast.WithLabel("billing"))
	defer locks.Close()
	lease, err := locks.Mutex("invoice:7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	queue, err := locks.Inspect(ctx, "invoice:7")
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range queue.Holders() {
		fmt.Println(queue.Name, "is held by", p.Owner.Label)
	}
	fmt.Println(len(queue.Waiters()), "wait")
	// Output:
	// invoice:7 is held by billing
	// 0 wait
}

func ExampleClient_Names() {
	ctx := context.Background()
	locks := holdfast.New(memstore.New())
	defer locks.Close()
	for _, name := range []string{"invoice:7", "invoice:8", "job"} {
		if _, err := locks.Mutex(name).Lock(ctx); err != nil {
			log.Fatal(err)
		}
	}
	var held []string
	for name, err := range locks.Names(ctx, "invoice:") {
		if err != nil {
			log.Fatal(err)
		}
		held = append(held, name)
	}
	slices.Sort(held)
	fmt.Println(held)
	// Output: [invoice:7 invoice:8]
}
