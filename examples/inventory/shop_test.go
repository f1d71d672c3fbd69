package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

func TestShopSells(t *testing.T) {
	w := &warehouse{count: 1}
	s := openTestShop(t, w, holdfast.New(memstore.New()), payment(0))
	s.check(http.MethodGet, "/healthz", http.StatusOK, "ok")
	s.check(http.MethodGet, "/stock", http.StatusOK, "1")
	s.check(http.MethodPost, "/buy", http.StatusOK, "sold, 0 left")
	s.check(http.MethodPost, "/buy", http.StatusConflict, "sold out")
	s.check(http.MethodGet, "/stock", http.StatusOK, "0")
	if w.gate.Seen() == 0 {
		t.Error("the shop sent no fencing token")
	}
}

func TestShopWithClosedLocksSellsNothing(t *testing.T) {
	locks := holdfast.New(memstore.New())
	if err := locks.Close(); err != nil {
		t.Fatal(err)
	}
	w := &warehouse{count: 1}
	s := openTestShop(t, w, locks, payment(0))
	s.check(http.MethodPost, "/buy", http.StatusServiceUnavailable, "closed")
	w.check(t, 1, 0)
}

func TestShopWithUnreachableLocksSellsNothing(t *testing.T) {
	locks := holdfast.New(memstore.NewServer().Connect(memstore.Over(cutWire{})))
	w := &warehouse{count: 1}
	s := openTestShop(t, w, locks, payment(0))
	s.check(http.MethodPost, "/buy", http.StatusServiceUnavailable, "no route to the store")
	w.check(t, 1, 0)
}

func TestShopThatLosesTheLockWritesNothing(t *testing.T) {
	server := memstore.NewServer()
	w := &warehouse{count: 1}
	s := openTestShop(t, w, holdfast.New(server.Connect()), func(ctx context.Context) error {
		server.Restart(false) // it forgets who holds the lock
		<-ctx.Done()
		return context.Cause(ctx)
	})
	s.check(http.MethodPost, "/buy", http.StatusServiceUnavailable, "lease lost")
	w.check(t, 1, 0)
}

func TestShopWithoutWarehouse(t *testing.T) {
	gone, err := openSite("127.0.0.1:0", http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.close(); err != nil {
		t.Fatal(err)
	}
	s := openTestShopAt(t, gone.url, nil, payment(0))
	s.check(http.MethodPost, "/buy", http.StatusServiceUnavailable, "the warehouse does not answer")
	s.check(http.MethodGet, "/stock", http.StatusServiceUnavailable, "the warehouse does not answer")
}

// A cutWire lets nothing through.
type cutWire struct{}

func (cutWire) Call(context.Context, func()) error { return errors.New("no route to the store") }
func (cutWire) Push(func())                        {}

// A testSite is a site that a test asks.
type testSite struct {
	t      *testing.T
	url    string
	client *http.Client
}

func openTestSite(t *testing.T, handler http.Handler) *testSite {
	t.Helper()
	s, err := openSite("127.0.0.1:0", handler)
	if err != nil {
		t.Fatal(err)
	}
	client := newHTTPClient(1)
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return &testSite{t, s.url, client}
}

func openTestShop(t *testing.T, w *warehouse, locks *holdfast.Client, work func(context.Context) error) *testSite {
	t.Helper()
	return openTestShopAt(t, openTestSite(t, w.handler()).url, locks, work)
}

func openTestShopAt(t *testing.T, stockURL string, locks *holdfast.Client, work func(context.Context) error) *testSite {
	t.Helper()
	s := newShop(locks, stockURL, work)
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return openTestSite(t, s.handler())
}

// check asks the site, and compares the status and a part of the text.
func (s *testSite) check(method, path string, status int, text string) {
	s.t.Helper()
	s.checkWith(method, path, "", "", status, text)
}

// checkWith is check with a token and a body.
func (s *testSite) checkWith(method, path, token, body string, status int, text string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set(tokenHeader, token)
	}
	gotStatus, gotText, err := send(s.client, r)
	if err != nil {
		s.t.Fatal(err)
	}
	if gotStatus != status || !strings.Contains(gotText, text) || strings.Contains(gotText, "\n") {
		s.t.Errorf("%s %s: %d %q, want %d and a line with %q", method, path, gotStatus, gotText, status, text)
	}
}

// check compares what is in the warehouse.
func (w *warehouse) check(t *testing.T, count, writes int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count != count || w.writes != writes {
		t.Errorf("%d items after %d writes, want %d after %d", w.count, w.writes, count, writes)
	}
}
