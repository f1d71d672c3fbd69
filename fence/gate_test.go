package fence_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
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

func TestGateRefusesOlder(t *testing.T) {
	var g fence.Gate
	for _, token := range []holdfast.Token{older, older, newer} {
		if err := g.Enter(token); err != nil {
			t.Fatalf("Enter(%v): %v", token, err)
		}
	}
	err := g.Do(older, func() error { t.Error("a stale write was let in"); return nil })
	var stale *fence.StaleError
	if !errors.Is(err, holdfast.ErrStale) || !errors.As(err, &stale) || stale.Token != older || stale.Seen != newer {
		t.Fatalf("got %v, want a StaleError with both tokens", err)
	}
	if g.Seen() != newer {
		t.Fatalf("a refused token moved the fence to %v", g.Seen())
	}
}

func TestGateIsCheckedButNeverRaisedByShared(t *testing.T) {
	var g fence.Gate
	testkit.Must(t, errors.Join(g.Enter(older), g.Enter(reader)))
	if g.Seen() != older {
		t.Fatalf("a shared token raised the fence to %v", g.Seen())
	}
	testkit.Must(t, g.Enter(newer))
	if err := g.Enter(reader); !errors.Is(err, holdfast.ErrStale) {
		t.Fatalf("a reader from before the last writer got %v", err)
	}
}

func TestGateRefusesNoToken(t *testing.T) {
	var g fence.Gate
	if err := g.Enter(0); !errors.Is(err, holdfast.ErrStale) {
		t.Fatalf("got %v", err)
	}
}

func TestGateFloor(t *testing.T) {
	var g fence.Gate
	g.SetFloor(newer)
	if err := g.Enter(older); !errors.Is(err, holdfast.ErrStale) {
		t.Fatalf("below the floor: %v", err)
	}
	g.SetFloor(0)
	if err := g.Enter(older); err != nil {
		t.Fatalf("after a reset: %v", err)
	}
}

func TestGateReturnsTheWritersError(t *testing.T) {
	var g fence.Gate
	broken := errors.New("disk full")
	if err := g.Do(older, func() error { return broken }); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}

// TestLateWriter plays the schedule that no lock can prevent: a holder pauses beyond its lease and writes when
// it wakes up. Without the fence its write lands on top of its successor's, with it, it is refused.
func TestLateWriter(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		t.Run(fmt.Sprintf("fenced=%v", fenced), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var g fence.Gate
				value := ""
				write := func(token holdfast.Token, v string) error {
					if !fenced {
						value = v
						return nil
					}
					return g.Do(token, func() error { value = v; return nil })
				}
				late, successor := twoHolders(t)
				testkit.Must(t, write(successor, "successor"))
				err := write(late, "late writer")
				if fenced && (value != "successor" || !errors.Is(err, holdfast.ErrStale)) {
					t.Fatalf("the late write was let in: %q, %v", value, err)
				}
				if !fenced && value != "late writer" {
					t.Fatalf("the control kept %q: it cannot show that the fence is needed", value)
				}
			})
		})
	}
}

// twoHolders gives the token of a lease that has run out, and that of the next holder.
func twoHolders(t *testing.T) (late, successor holdfast.Token) {
	locks := holdfast.New(memstore.New())
	t.Cleanup(func() { locks.Close() })
	first, err := locks.Mutex("ledger", holdfast.FixedTTL(time.Second)).Lock(t.Context())
	testkit.Must(t, err)
	second, err := locks.Mutex("ledger").Lock(t.Context())
	testkit.Must(t, err)
	if !errors.Is(first.Err(), holdfast.ErrLost) {
		t.Fatalf("two hold it: the first lease says %v", first.Err())
	}
	return first.Token(), second.Token()
}

func TestGateUnderManyGoroutines(t *testing.T) {
	var g fence.Gate
	var last holdfast.Token
	var wg sync.WaitGroup
	for _, n := range rand.Perm(200) {
		wg.Go(func() {
			token := holdfast.Token(n+1) << 8
			err := g.Do(token, func() error {
				if token < last {
					t.Errorf("%v wrote after %v", token, last)
				}
				last = token
				return nil
			})
			if err != nil && !errors.Is(err, holdfast.ErrStale) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
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
