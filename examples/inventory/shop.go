package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	// lockName is what all shops lock for a sale. A real one has a lock for each kind of item.
	lockName = "inventory:42"

	// patience is how long a buyer waits for the lock.
	patience = 10 * time.Second
)

var errSoldOut = errors.New("sold out")

// A shop sells items of a warehouse that it shares with other shops.
type shop struct {
	locks *holdfast.Client // nil: it sells without a lock
	stock *stock
	work  func(context.Context) error // what a sale takes between reading and writing the stock
}

// close releases what the shop holds. Its server must be closed before.
func (s *shop) close() error {
	s.stock.client.CloseIdleConnections()
	if s.locks == nil {
		return nil
	}
	return s.locks.Close()
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /buy", func(w http.ResponseWriter, r *http.Request) {
		left, err := s.sell(r.Context())
		answer(w, err, "sold, %d left\n", left)
	})
	mux.HandleFunc("GET /stock", func(w http.ResponseWriter, r *http.Request) {
		count, err := s.stock.count(r.Context())
		answer(w, err, "%d\n", count)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// answer says 200 if all went well, 409 if there is nothing left, and 503 if the shop cannot tell.
func answer(w http.ResponseWriter, err error, format string, n int) {
	switch {
	case err == nil:
		fmt.Fprintf(w, format, n)
	case errors.Is(err, errSoldOut):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, strings.ReplaceAll(err.Error(), "\n", "; "), http.StatusServiceUnavailable)
	}
}

// sell sells one item, alone among all shops if there is a lock.
//
// After an error the item may have been written off all the same: the warehouse's answer got lost, or the lease
// did, which Do reports. The buyer is turned away then. An item that is missing is found by stocktaking. One that
// is sold twice is found by the second buyer.
func (s *shop) sell(ctx context.Context) (left int, err error) {
	if s.locks == nil {
		return s.takeOne(ctx)
	}
	err = s.locks.Mutex(lockName, holdfast.WithWait(patience)).Do(ctx, func(ctx context.Context) (err error) {
		left, err = s.takeOne(ctx)
		return err
	})
	return left, err
}

// takeOne reads the stock, works, and writes the stock less one. Two at a time would read the same count.
func (s *shop) takeOne(ctx context.Context) (left int, err error) {
	count, err := s.stock.count(ctx)
	if err != nil {
		return 0, err
	}
	if count == 0 {
		return 0, errSoldOut
	}
	if err := s.work(ctx); err != nil {
		return 0, err
	}
	return count - 1, s.stock.set(ctx, count-1)
}

// payment is work that takes a while, as asking a bank does. It ends early if the lease is lost.
func payment(takes time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
