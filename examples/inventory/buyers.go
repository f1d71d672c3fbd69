package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A crowd buys at shops over HTTP.
type crowd struct {
	shops    []string // URLs
	buyers   int      // how many at a time
	requests int      // how many at most
}

// A tally is what came of it.
type tally struct {
	sold    int
	refused int // sold out
	failed  int
	failure error // the first one
	took    time.Duration
}

// buy lets all buyers buy at once. Each goes from shop to shop, until one of them says that nothing is left.
func (c *crowd) buy(ctx context.Context) tally {
	client := newHTTPClient(c.buyers)
	defer client.CloseIdleConnections()

	var (
		sent  atomic.Int64
		mu    sync.Mutex
		total tally
		wg    sync.WaitGroup
	)
	start := time.Now()
	for first := range c.buyers {
		wg.Go(func() {
			for next := first; ctx.Err() == nil && sent.Add(1) <= int64(c.requests); next++ {
				err := buyOne(ctx, client, c.shops[next%len(c.shops)])
				mu.Lock()
				total.count(err)
				mu.Unlock()
				if errors.Is(err, errSoldOut) {
					return
				}
			}
		})
	}
	wg.Wait()
	total.took = time.Since(start)
	return total
}

// buyOne buys one item. The error is nil if it was sold.
func buyOne(ctx context.Context, client *http.Client, shop string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, shop+"/buy", http.NoBody)
	if err != nil {
		return err
	}
	status, text, err := send(client, r)
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
	switch {
	case err == nil:
		t.sold++
	case errors.Is(err, errSoldOut):
		t.refused++
	default:
		t.failed++
		if t.failure == nil {
			t.failure = err
		}
	}
}
