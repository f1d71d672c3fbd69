package fence_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
)

// serve is a server on the loopback, and a client that sends tokens to it.
func serve(t *testing.T, h http.Handler) (url string, client *http.Client) {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL, &http.Client{Transport: &fence.RoundTripper{Base: server.Client().Transport}}
}

// put sends a value, and gives the status of the answer.
func put(ctx context.Context, client *http.Client, url, v string, tokens ...string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(v))
	if err != nil {
		return 0, err
	}
	if len(tokens) > 0 {
		req.Header[fence.Header] = tokens
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func newLocks(t *testing.T) *holdfast.Client {
	locks := holdfast.New(memstore.New())
	t.Cleanup(func() { locks.Close() })
	return locks
}

// A slowNetwork holds up the first request that was handed to it. What is on its way is not called back when its
// sender's context ends.
type slowNetwork struct {
	http.RoundTripper
	sent, deliver chan struct{}
}

func (n *slowNetwork) RoundTrip(req *http.Request) (*http.Response, error) {
	close(n.sent)
	<-n.deliver
	return n.RoundTripper.RoundTrip(req.Clone(context.WithoutCancel(req.Context())))
}

// TestHTTPLateWriter has a write on its way while the lock changes hands.
func TestHTTPLateWriter(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprintf("fenced=%v", guarded), func(t *testing.T) {
			var gate fence.Gate
			entry := ""
			var h http.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				entry = string(body)
			})
			if guarded {
				h = fence.Middleware(h, fence.GateGuard(func(*http.Request) *fence.Gate { return &gate }))
			}
			url, client := serve(t, h)
			slow := &slowNetwork{client.Transport.(*fence.RoundTripper).Base, make(chan struct{}), make(chan struct{})}
			locks := newLocks(t)

			first := testkit.Lock(t, locks, "ledger")
			late := make(chan error, 1)
			go func() {
				_, err := put(
					first.Context(),
					&http.Client{Transport: &fence.RoundTripper{Base: slow}},
					url,
					"late writer",
				)
				late <- err
			}()
			<-slow.sent
			testkit.Must(t, first.Unlock(t.Context()))
			second := testkit.Lock(t, locks, "ledger")
			if status, err := put(second.Context(), client, url, "successor"); err != nil || status != http.StatusOK {
				t.Error(status, err)
			}
			close(slow.deliver)
			err := <-late
			checkLate(t, guarded, entry, err, first.Token(), second.Token())
		})
	}
}

// TestHTTPRowLateWriter has a handler that is paused between its entry, which the guard let pass, and its write.
func TestHTTPRowLateWriter(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		t.Run(fmt.Sprintf("fenced=%v", guarded), func(t *testing.T) {
			db, fences := fenced(t, "CREATE TABLE ledger (entry TEXT)", "INSERT INTO ledger VALUES ('')")
			row := func(r *http.Request) fence.Row { return fences.Row(r.PathValue("name")) }
			paused, resume := make(chan struct{}), make(chan struct{})

			mux := http.NewServeMux()
			mux.Handle("PUT /{name}", fence.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if string(body) == "late writer" {
					close(paused)
					<-resume
				}
				var err error
				if update := "UPDATE ledger SET entry = ?"; guarded {
					token, _ := fence.TokenOf(r)
					err = row(r).Do(r.Context(), db, token, func(tx *sql.Tx) error {
						_, err := tx.ExecContext(r.Context(), update, string(body))
						return err
					})
				} else {
					_, err = db.ExecContext(r.Context(), update, string(body))
				}
				if err != nil {
					fence.Refuse(w, err)
				}
			}), fence.RowGuard(db, row)))
			url, client := serve(t, mux)

			late := make(chan error, 1)
			go func() {
				_, err := put(t.Context(), client, url+"/ledger", "late writer", older.String())
				late <- err
			}()
			<-paused
			if status, err := put(t.Context(), client, url+"/ledger", "successor", newer.String()); err != nil ||
				status != http.StatusOK {
				t.Error(status, err)
			}
			close(resume)
			err := <-late
			entry := value[string](t, db, "SELECT entry FROM ledger")
			checkLate(t, guarded, entry, err, older, newer)
			_, err = put(t.Context(), client, url+"/ledger", "too late", older.String())
			wantStale(t, err, older, newer) // on entry
		})
	}
}

// TestMiddlewareRefuses looks at each refusal as a client in another language sees it.
func TestMiddlewareRefuses(t *testing.T) {
	down := errors.New("password authentication failed")
	newGate := func() fence.Guard {
		var gate fence.Gate
		gate.SetFloor(newer)
		return fence.GateGuard(func(*http.Request) *fence.Gate { return &gate })
	}
	failing := func(*http.Request, holdfast.Token, func()) error { return down }
	versioned := func(*http.Request, holdfast.Token, func()) error { return &fence.VersionError{} }
	silent := func(*http.Request, holdfast.Token, func()) error { return nil }
	const blank = "about:blank"
	cases := map[string]struct {
		guard  fence.Guard
		tokens []string
		status int
		kind   string
	}{
		"no token":  {newGate(), nil, http.StatusPreconditionRequired, blank},
		"empty":     {newGate(), []string{""}, http.StatusBadRequest, blank},
		"zero":      {newGate(), []string{"0"}, http.StatusBadRequest, blank},
		"words":     {newGate(), []string{"newest"}, http.StatusBadRequest, blank},
		"negative":  {newGate(), []string{"-2304"}, http.StatusBadRequest, blank},
		"a double":  {newGate(), []string{"2.304e3"}, http.StatusBadRequest, blank},
		"two":       {newGate(), []string{newer.String(), newer.String()}, http.StatusBadRequest, blank},
		"a list":    {newGate(), []string{"2304, 2560"}, http.StatusBadRequest, blank},
		"too large": {newGate(), []string{"18446744073709551615"}, http.StatusBadRequest, blank},
		"stale": {
			newGate(),
			[]string{older.String()},
			http.StatusConflict,
			"https://pkg.go.dev/github.com/holdfast-go/holdfast/fence#StaleError",
		},
		"stale version":    {versioned, []string{newer.String()}, http.StatusConflict, blank},
		"the guard failed": {failing, []string{newer.String()}, http.StatusServiceUnavailable, blank},
		"the guard forgot": {silent, []string{newer.String()}, http.StatusServiceUnavailable, blank},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := fence.Middleware(
				http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") }),
				c.guard,
			)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if c.tokens != nil {
				r.Header[fence.Header] = c.tokens
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			var body map[string]any
			testkit.Must(t, json.Unmarshal(w.Body.Bytes(), &body))
			if w.Code != c.status || body["status"] != float64(c.status) || body["type"] != c.kind {
				t.Errorf("got %d %v, want %d %s", w.Code, body, c.status, c.kind)
			}
			if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("it is of type %q", got)
			}
			if body["title"] == "" || body["detail"] == "" || strings.Contains(w.Body.String(), down.Error()) {
				t.Errorf("it says too little or too much: %v", body)
			}
			if name == "stale" && (body["token"] != fence.Pad(older) || body["seen"] != fence.Pad(newer)) {
				t.Errorf("the tokens are not both there as strings: %v", body)
			}
		})
	}
}

// TestMiddlewareLogsAGuardThatFailed also when the handler has answered already: then the answer stays as it is.
func TestMiddlewareLogsAGuardThatFailed(t *testing.T) {
	down := errors.New("commit failed")
	before := slog.Default()
	defer slog.SetDefault(before)
	guards := map[string]struct {
		guard  fence.Guard
		status int
		logged string
	}{
		"before the handler": {
			func(*http.Request, holdfast.Token, func()) error { return down },
			http.StatusServiceUnavailable,
			down.Error(),
		},
		"after the handler": {
			func(_ *http.Request, _ holdfast.Token, handle func()) error { handle(); return down },
			http.StatusAccepted,
			down.Error(),
		},
		"it forgot": {
			func(*http.Request, holdfast.Token, func()) error { return nil },
			http.StatusServiceUnavailable,
			"neither",
		},
		"a refusal": {
			func(*http.Request, holdfast.Token, func()) error { return &fence.StaleError{} },
			http.StatusConflict,
			"",
		},
	}
	for name, c := range guards {
		var logged strings.Builder
		slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
		accept := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
		r, w := httptest.NewRequest(http.MethodPut, "/", nil), httptest.NewRecorder()
		r.Header.Set(fence.Header, newer.String())
		fence.Middleware(accept, c.guard).ServeHTTP(w, r)
		if w.Code != c.status || c.status == http.StatusAccepted && w.Body.Len() > 0 {
			t.Errorf("%s: got %d %s", name, w.Code, w.Body)
		}
		if !strings.Contains(logged.String(), c.logged) || c.logged == "" && logged.Len() > 0 {
			t.Errorf("%s: logged %q", name, logged.String())
		}
	}
}

// TestReadsRaiseTheFence reads with a newer token, and an older write is refused.
func TestReadsRaiseTheFence(t *testing.T) {
	var gate fence.Gate
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	url, client := serve(t, fence.Middleware(ok, fence.GateGuard(func(*http.Request) *fence.Gate { return &gate })))
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		gate.SetFloor(0)
		req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		testkit.Must(t, err)
		req.Header.Set(fence.Header, fence.Pad(newer))
		resp, err := client.Do(req)
		testkit.Must(t, err)
		resp.Body.Close()
		_, err = put(t.Context(), client, url, "late", older.String())
		wantStale(t, err, older, newer)
	}
}

// TestHoldGateHoldsWhileTheHandlerRuns has a handler under way, and a newer holder that must wait for it.
func TestHoldGateHoldsWhileTheHandlerRuns(t *testing.T) {
	var gate fence.Gate
	started, entered, resume := make(chan struct{}), make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if token, _ := fence.TokenOf(r); token == newer {
			close(entered)
			return
		}
		close(started)
		<-resume
	})
	url, client := serve(t, fence.Middleware(h, fence.GateGuard(func(*http.Request) *fence.Gate { return &gate })))
	done := make(chan error, 2)
	send := func(token holdfast.Token) {
		_, err := put(t.Context(), client, url, "", token.String())
		done <- err
	}
	go send(older)
	<-started
	go send(newer)
	select {
	case <-entered:
		t.Error("a newer holder got in while an older one was writing")
	case <-time.After(100 * time.Millisecond):
	}
	close(resume)
	testkit.Check(t, errors.Join(<-done, <-done))
	<-entered
}
