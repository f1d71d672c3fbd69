package fence_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
)

const (
	older  = holdfast.Token(7 << 8)
	reader = holdfast.Token(8<<8 | 1<<7)
	newer  = holdfast.Token(9 << 8)
)

func TestGateReturnsTheWritersError(t *testing.T) {
	var g fence.Gate
	broken := errors.New("disk full")
	if err := g.Do(older, func() error { return broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}

// twoHolders gives the token of a lease that has run out, and that of the next holder.
func twoHolders(t *testing.T) (late, successor holdfast.Token) {
	locks := holdfast.New(memstore.New())
	t.Cleanup(func() { locks.Close() })
	first := testkit.Lock(t, locks, "ledger", holdfast.WithFixedTTL(time.Second))
	second := testkit.Lock(t, locks, "ledger")
	if !errors.Is(first.Err(), holdfast.ErrLost) {
		t.Fatalf("two hold it: the first lease says %v", first.Err())
	}
	return first.Token(), second.Token()
}

func ExampleGate() {
	locks := holdfast.New(memstore.New())
	defer locks.Close()

	var gate fence.Gate // lies beside the data that the lock protects
	balance := 100

	ctx := context.Background()
	err := locks.Mutex("account:7").Do(ctx, func(ctx context.Context) error {
		token, _ := holdfast.TokenFrom(ctx)
		if err := gate.Enter(token); err != nil { // before the first read
			return err
		}
		changed := balance - 30
		return gate.Do(token, func() error { balance = changed; return nil })
	})
	fmt.Println(balance, err)

	// A write that comes late, from whoever held the lock before, is refused.
	err = gate.Do(1<<8-1, func() error { balance = 0; return nil })
	fmt.Println(balance, errors.Is(err, holdfast.ErrStale))
	// Output:
	// 70 <nil>
	// 70 true
}
