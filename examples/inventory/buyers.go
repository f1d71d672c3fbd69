package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A tally is what came of the requests of all buyers.
type tally struct {
	mu      sync.Mutex
	sold    int
	refused int // sold out
	failed  int
	failure error // the first one
}

// rush lets all buyers buy at once, and compares what was sold with what was there. Nobody else must buy meanwhile: the
// account would not know of those sales.
func rush(ctx context.Context, stockURL string, shops []string, buyers, requests int, out io.Writer) error {
	s := newStock(stockURL)
	defer s.client.CloseIdleConnections()
	before, err := s.count(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	t := buy(ctx, shops, buyers, requests)
	took := time.Since(start)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d sales", t.sold)
	}
	left, err := s.count(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "in stock  %6d\n", before)
	rate := float64(t.sold) / took.Seconds()
	fmt.Fprintf(out, "sold      %6d  in %v, %.0f a second\n", t.sold, took.Round(time.Millisecond), rate)
	fmt.Fprintf(out, "sold out  %6d  buyers came too late\n", t.refused)
	fmt.Fprintf(out, "errors    %6d\n", t.failed)
	fmt.Fprintf(out, "left      %6d\n", left)
	switch {
	case t.sold > before:
		return fmt.Errorf("OVERSOLD by %d: %d sold, %d in stock", t.sold-before, t.sold, before)
	case t.failed > 0:
		return fmt.Errorf("%d requests failed, the first: %w", t.failed, t.failure)
	case t.refused > 0 && (t.sold < before || left > 0):
		return fmt.Errorf("sold out, and yet %d of %d were sold and %d are left", t.sold, before, left)
	}
	return nil
}

// buy lets each buyer go from shop to shop, until one of them says that nothing is left.
func buy(ctx context.Context, shops []string, buyers, requests int) *tally {
	client := &http.Client{Transport: transport(), Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var sent atomic.Int64
	var total tally
	var running sync.WaitGroup
	for first := range buyers {
		running.Go(func() {
			for next := first; ctx.Err() == nil && sent.Add(1) <= int64(requests); next++ {
				err := buyOne(ctx, client, shops[next%len(shops)])
				total.count(err)
				if errors.Is(err, errSoldOut) {
					return
				}
			}
		})
	}
	running.Wait()
	return &total
}

// buyOne buys one item. The error is nil if it was sold.
func buyOne(ctx context.Context, client *http.Client, shop string) error {
	status, text, err := send(ctx, client, http.MethodPost, shop+"/buy", "")
	switch {
	case err != nil:
		return err
	case status == http.StatusOK:
		return nil
	case status == http.StatusConflict:
		return errSoldOut
	}
	return fmt.Errorf("%s answers %d: %s", shop, status, text)
}

func (t *tally) count(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.sold++
	case errors.Is(err, errSoldOut):
		t.refused++
	default:
		if t.failed++; t.failed == 1 {
			t.failure = err
		}
	}
}
