package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	// lockName is what all shops lock for a sale. A real one has a lock for each kind of item.
	lockName = "inventory:42"

	// patience is how long a buyer waits for the lock.
	patience = 10 * time.Second

	// warehouseConns is how many connections to the warehouse a shop keeps.
	warehouseConns = 32
)

var errSoldOut = errors.New("sold out")

// A shop sells items of a stock that it shares with other shops.
type shop struct {
	locks *holdfast.Client // nil: it sells without a lock
	stock *stock
	work  func(context.Context) error // what a sale takes between read and write
}

func newShop(locks *holdfast.Client, stockURL string, work func(context.Context) error) *shop {
	return &shop{locks: locks, stock: &stock{stockURL, newHTTPClient(warehouseConns)}, work: work}
}

// close gives back what the shop holds. Its site must be closed before.
func (s *shop) close() error {
	s.stock.close()
	if s.locks == nil {
		return nil
	}
	return s.locks.Close()
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /buy", s.buy)
	mux.HandleFunc("GET /stock", s.showStock)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// buy answers 200 if an item was sold, 409 if there is none left, and 503 if the shop cannot tell.
func (s *shop) buy(w http.ResponseWriter, r *http.Request) {
	left, err := s.sell(r.Context())
	switch {
	case err == nil:
		fmt.Fprintf(w, "sold, %d left\n", left)
	case errors.Is(err, errSoldOut):
		http.Error(w, errSoldOut.Error(), http.StatusConflict)
	default:
		unavailable(w, err)
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
	err = s.locks.Mutex(lockName, holdfast.Wait(patience)).Do(ctx, func(ctx context.Context) (err error) {
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

func (s *shop) showStock(w http.ResponseWriter, r *http.Request) {
	count, err := s.stock.count(r.Context())
	if err != nil {
		unavailable(w, err)
		return
	}
	fmt.Fprintln(w, count)
}

// unavailable turns a buyer away who may come again.
func unavailable(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, oneLine(err), http.StatusServiceUnavailable)
}

// payment is work that takes a while, as asking a bank does. It ends early if the lease is lost.
func payment(takes time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
