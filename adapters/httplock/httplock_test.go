package httplock_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/httplock"
	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
	_ "github.com/holdfast-go/holdfast/sqlstore/sqlite"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// byPath takes the key from the path: /x has the key x, and / none.
func byPath(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }

// serve starts a machine whose handler is behind the middleware, and returns its URL.
func serve(t *testing.T, locks *holdfast.Client, next http.HandlerFunc, options ...holdfast.Option) string {
	t.Helper()
	server := httptest.NewServer(httplock.Middleware(next, locks, byPath, options...))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return server.URL
}

// connect returns a client of a store in memory.
func connect(t *testing.T, server *memstore.Server) *holdfast.Client {
	t.Helper()
	locks := holdfast.New(server.Connect())
	t.Cleanup(func() { locks.Close() })
	return locks
}

// get sends a request and returns the status of the response and its Retry-After.
func get(ctx context.Context, url string) (status int, retryAfter string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header.Get("Retry-After"), err
}

// TestSerialises: two machines on one SQLite file handle requests for one key. Each request reads a number, lets others
// run, and writes the next. Without the middleware updates are lost, which the control shows.
func TestSerialises(t *testing.T) {
	const requests = 20
	for name, path := range map[string]string{"locked": "/stock", "control": "/"} {
		t.Run(name, func(t *testing.T) {
			file := "sqlite:" + filepath.Join(t.TempDir(), "locks.db")
			var number, inside atomic.Int64
			entered := make(chan struct{}, requests)
			next := func(_ http.ResponseWriter, r *http.Request) {
				if _, ok := holdfast.TokenFrom(r.Context()); ok == (name == "control") {
					t.Error("token:", ok)
				}
				if got := inside.Add(1); name == "locked" && got > 1 {
					t.Errorf("%d requests at once", got)
				}
				before := number.Load()
				entered <- struct{}{}
				if name == "control" { // all read before the first writes
					testkit.Soon(testkit.Patience, func() bool { return len(entered) == requests })
				}
				number.Store(before + 1)
				inside.Add(-1)
			}
			var urls []string
			for range 2 {
				locks, err := holdfast.Open(t.Context(), file)
				testkit.Must(t, err)
				t.Cleanup(func() { locks.Close() })
				urls = append(urls, serve(t, locks, next, holdfast.WithWait(testkit.Patience)))
			}
			done := make(chan error, requests)
			for i := range requests {
				go func() {
					status, _, err := get(t.Context(), urls[i%2]+path)
					if err == nil && status != http.StatusOK {
						err = errors.New(http.StatusText(status))
					}
					done <- err
				}()
			}
			for range requests {
				testkit.Check(t, <-done)
			}
			want := int64(requests)
			if name == "control" {
				want = 1
			}
			if number.Load() != want {
				t.Errorf("the number is %d after %d requests, want %d", number.Load(), requests, want)
			}
		})
	}
}

// TestBusy: a request whose key is held elsewhere is refused after the wait. One with another key, or none, is not.
func TestBusy(t *testing.T) {
	server := memstore.NewServer()
	here, elsewhere := connect(t, server), connect(t, server)
	next := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	patient := serve(t, here, next, holdfast.WithWait(testkit.Patience))
	impatient := serve(t, here, next, holdfast.WithWait(20*time.Millisecond))
	lease := testkit.Lock(t, elsewhere, "x")
	defer lease.Unlock(t.Context())
	for url, want := range map[string]int{
		impatient + "/x": http.StatusLocked, patient + "/y": http.StatusNoContent, patient + "/": http.StatusNoContent,
	} {
		if status, retry, err := get(t.Context(), url); err != nil || status != want ||
			(retry != "") != (want == http.StatusLocked) {
			t.Errorf("%s: %d, Retry-After %q, %v, want %d", url, status, retry, err, want)
		}
	}
	testkit.Await(t, "the refused request is withdrawn", func() bool {
		queue, err := elsewhere.Inspect(t.Context(), "x")
		testkit.Must(t, err)
		return len(queue.Entries) == 1
	})
}

// TestLost: when the lease is lost, the handler's context ends, with the reason.
func TestLost(t *testing.T) {
	server := memstore.NewServer()
	cause := make(chan error, 1)
	url := serve(t, connect(t, server), func(_ http.ResponseWriter, r *http.Request) {
		server.Revoke("x")
		<-r.Context().Done()
		cause <- context.Cause(r.Context())
	})
	if status, _, err := get(t.Context(), url+"/x"); err != nil || status != http.StatusOK {
		t.Error(status, err)
	}
	if err := <-cause; !errors.Is(err, holdfast.ErrLost) {
		t.Error(err)
	}
}

// TestPanic: the lock of a handler that panics is released, and the panic reaches the server.
func TestPanic(t *testing.T) {
	server := memstore.NewServer()
	url := serve(t, connect(t, server), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if status, _, err := get(t.Context(), url+"/x"); err == nil {
		t.Errorf("status %d, want a connection that is closed", status)
	}
	testkit.Unlock(t, testkit.Lock(t, connect(t, server), "x"))
}

// TestClientLeaves: the request of a client that has left is withdrawn from the queue.
func TestClientLeaves(t *testing.T) {
	server := memstore.NewServer()
	elsewhere := connect(t, server)
	url := serve(t, connect(t, server), func(http.ResponseWriter, *http.Request) { t.Error("it was handled") },
		holdfast.WithWait(time.Hour))
	lease := testkit.Lock(t, elsewhere, "x")
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := get(ctx, url+"/x")
		done <- err
	}()
	length := func() int {
		queue, err := elsewhere.Inspect(t.Context(), "x")
		testkit.Must(t, err)
		return len(queue.Entries)
	}
	testkit.Await(t, "the request waits", func() bool { return length() == 2 })
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	testkit.Await(t, "the request is withdrawn", func() bool { return length() == 1 })
	testkit.Unlock(t, lease)
}

// TestRefusals: each refusal as a client sees it. Details of the failure are not shown.
func TestRefusals(t *testing.T) {
	server := memstore.NewServer()
	silent := server.Connect()
	cut := holdfast.New(silent)
	defer cut.Close()
	silent.Disconnect()
	closed := holdfast.New(memstore.New())
	closed.Close()
	fine := connect(t, server)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		locks  *holdfast.Client
		path   string
		option holdfast.Option
		status int
	}{
		"store fails":   {t.Context(), cut, "/x", holdfast.WithWait(50 * time.Millisecond), 503},
		"client closed": {t.Context(), closed, "/x", holdfast.WithLabel("x"), 503},
		"request ended": {ended, fine, "/x", holdfast.WithLabel("x"), 503},
		"bad name":      {t.Context(), fine, "/a%00b", holdfast.WithLabel("x"), 400},
		"bad option":    {t.Context(), fine, "/x", holdfast.WithTTL(-1), 500},
	} {
		t.Run(name, func(t *testing.T) {
			next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was handled") })
			w := httptest.NewRecorder()
			httplock.Middleware(next, c.locks, byPath, c.option).ServeHTTP(w,
				httptest.NewRequest(http.MethodPost, c.path, nil).WithContext(c.ctx))
			var body struct {
				Type, Title, Detail string
				Status              int
			}
			testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &body))
			if w.Code != c.status || body.Status != c.status || body.Title != http.StatusText(c.status) ||
				body.Detail == "" || strings.Contains(w.Body.String(), "memory") {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.status)
			}
			if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
				t.Error(got)
			}
			if got := w.Header().Get("Retry-After"); (got != "") != (c.status == 503) {
				t.Errorf("Retry-After %q with %d", got, c.status)
			}
		})
	}
}
