package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/memstore"
)

// site serves a handler until the test ends.
func site(t *testing.T, handler http.Handler) (url string) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

// openShop opens a shop of a warehouse until the test ends.
func openShop(t *testing.T, stockURL string, locks *holdfast.Client, work func(context.Context) error) (url string) {
	t.Helper()
	s := &shop{locks, newStock(stockURL), work}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return site(t, s.handler())
}

// check sends a request, and compares the status and a part of the text.
func check(t *testing.T, method, url, token, body string, status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set(fence.Header, token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status || !strings.Contains(string(got), text) {
		t.Errorf("%s %s: %d %q, want %d and a line with %q: %v", method, url, answer.StatusCode, got, status, text, err)
	}
}

// has demands that so many items are left.
func (w *warehouse) has(t *testing.T, want int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count != want {
		t.Errorf("%d items are left, want %d", w.count, want)
	}
}

func TestShopSells(t *testing.T) {
	w := &warehouse{count: 1}
	shop := openShop(t, site(t, w.handler()), holdfast.New(memstore.New()), payment(0))
	check(t, http.MethodGet, shop+"/healthz", "", "", http.StatusOK, "ok")
	check(t, http.MethodGet, shop+"/stock", "", "", http.StatusOK, "1")
	check(t, http.MethodPost, shop+"/buy", "", "", http.StatusOK, "sold, 0 left")
	check(t, http.MethodPost, shop+"/buy", "", "", http.StatusConflict, "sold out")
	check(t, http.MethodGet, shop+"/stock", "", "", http.StatusOK, "0")
	if w.gate.Seen() == 0 {
		t.Error("the shop sent no fencing token")
	}
}

// A shop asks for the lock for as long as a buyer waits, and the warehouse for nothing.
func TestShopWithUnreachableLocksSellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connection := memstore.NewServer().Connect()
		connection.Disconnect()
		locks := holdfast.New(connection)
		s := &shop{locks, newStock("http://127.0.0.1:1"), payment(0)}
		answer := httptest.NewRecorder()
		s.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/buy", http.NoBody))
		text := answer.Body.String()
		if answer.Code != http.StatusServiceUnavailable || !strings.Contains(text, "the connection is cut") {
			t.Errorf("%d %s", answer.Code, text)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
}

// Whatever happens to its lock, a shop without it sells nothing.
func TestShopWithoutLockSellsNothing(t *testing.T) {
	closed := holdfast.New(memstore.New())
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	server := memstore.NewServer()
	for name, test := range map[string]struct {
		locks *holdfast.Client
		work  func(context.Context) error
		says  string
	}{
		"closed": {closed, payment(0), "closed"},
		"lost": {holdfast.New(server.Connect()), func(ctx context.Context) error {
			server.Restart(false) // it forgets who holds the lock
			<-ctx.Done()
			return context.Cause(ctx)
		}, "lease lost"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &warehouse{count: 1}
			shop := openShop(t, site(t, w.handler()), test.locks, test.work)
			check(t, http.MethodPost, shop+"/buy", "", "", http.StatusServiceUnavailable, test.says)
			w.has(t, 1)
		})
	}
}

func TestShopWithoutWarehouse(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	shop := openShop(t, gone.URL, nil, payment(0))
	check(t, http.MethodPost, shop+"/buy", "", "", http.StatusServiceUnavailable, "the warehouse does not answer")
	check(t, http.MethodGet, shop+"/stock", "", "", http.StatusServiceUnavailable, "the warehouse does not answer")
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

// The account of the buyers tells of an item that was sold twice, of shops that fail, and of an interruption. The first
// needs no luck: each sale waits until the other has read the stock too.
func TestRush(t *testing.T) {
	interrupted, interrupt := context.WithCancel(t.Context())
	fails := func(context.Context) error { return errors.New("no money") }
	for name, test := range map[string]struct {
		ctx  context.Context
		work func(context.Context) error
		want string
		says string
	}{
		"sold twice": {t.Context(), meeting(2), "sold           2 ", "OVERSOLD by 1: 2 sold, 1 in stock"},
		"failed":     {t.Context(), fails, "errors         2\n", "2 requests failed, the first: "},
		"interrupted": {interrupted, func(sale context.Context) error {
			interrupt()
			<-sale.Done() // the shop learns it from the buyer, who hangs up
			return sale.Err()
		}, "", "interrupted after 0 sales"},
	} {
		t.Run(name, func(t *testing.T) {
			stock := site(t, (&warehouse{count: 1}).handler())
			shops := []string{openShop(t, stock, nil, test.work), openShop(t, stock, nil, test.work)}
			var out bytes.Buffer
			err := rush(test.ctx, stock, shops, 2, 2, &out)
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(out.String(), test.want) {
				t.Errorf("%v\n%s", err, &out)
			}
		})
	}
}
