package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestWithLockExactlyTheStockIsSold(t *testing.T) {
	var inside atomic.Int32
	pay := payment(time.Millisecond)
	p := plan{
		items: 40, shops: 3, buyers: 12, requests: 1000, store: "memory:" + t.Name(),
		work: func(ctx context.Context) error {
			if inside.Add(1) > 1 {
				t.Error("two sales at a time")
			}
			defer inside.Add(-1)
			return pay(ctx)
		},
	}
	a, err := p.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a.sold != p.items || a.left != 0 || a.writes != p.items || a.oversold() != 0 {
		t.Errorf("%d of %d sold by %d writes, %d left, oversold by %d", a.sold, a.before, a.writes, a.left, a.oversold())
	}
	if a.refused != p.buyers || a.failed != 0 {
		t.Errorf("%d buyers of %d were told that it is sold out, %d failed: %v", a.refused, p.buyers, a.failed, a.failure)
	}
}

// TestWithoutLockTheSameItemIsSoldTwice needs no luck: each sale waits until the other has read the stock too.
func TestWithoutLockTheSameItemIsSoldTwice(t *testing.T) {
	p := plan{items: 1, shops: 2, buyers: 2, requests: 2, work: meeting(2)}
	a, err := p.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a.sold != 2 || a.oversold() != 1 || a.left != 0 || a.writes != 2 {
		t.Errorf("%d of %d sold, oversold by %d, %d left after %d writes", a.sold, a.before, a.oversold(), a.left, a.writes)
	}
}

func TestDemo(t *testing.T) {
	code, stdout, stderr := runHere(t, "demo")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, row := range []string{"without lock       100", "with lock          100     100       0            0       0"} {
		if !strings.Contains(stdout, row) {
			t.Errorf("the report has no row %q:\n%s", row, stdout)
		}
	}
}

func TestDemoIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := plan{items: 1, shops: 1, buyers: 1, requests: 1, work: func(sale context.Context) error {
		cancel()
		<-sale.Done() // the shop learns it from the buyer, who hangs up
		return sale.Err()
	}}
	if _, err := p.run(ctx); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v", err)
	}
}

func TestVerdict(t *testing.T) {
	good := account{before: 5, tally: tally{sold: 5}}
	over := account{before: 5, tally: tally{sold: 7}}
	short := account{before: 5, left: 1, tally: tally{sold: 4}}
	broken := account{before: 5, tally: tally{sold: 5, failed: 1, failure: errors.New("no route")}}
	for _, test := range []struct {
		name          string
		without, with account
		want          string // empty: fine
	}{
		{"as it should be", over, good, ""},
		{"nothing shown", good, good, "did not oversell"},
		{"the lock let two in", over, over, "oversold by 2 with the lock"},
		{"not all sold", over, short, "4 of 5 were sold and 1 are left"},
		{"requests failed", over, broken, "1 requests failed, the first: no route"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if err := verdict(&test.without, &test.with); err != nil {
				got = err.Error()
			}
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// meeting makes work that is done when n sales are at it at the same time.
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
