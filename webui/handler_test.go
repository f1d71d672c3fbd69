package webui_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/webui"
)

const secret = "a secret of the operator"

// TestGuard sends requests as the page, as other web pages and as strangers do.
func TestGuard(t *testing.T) {
	open := newScene(t, webui.WithHosts("Ops.Example.com"))
	locked := newScene(t, webui.WithToken(secret), webui.WithBreak())
	for name, c := range map[string]struct {
		scene   *scene
		method  string
		path    string
		host    string
		headers map[string]string
		want    int
	}{
		"the page":                     {open, "GET", "/", "", nil, 200},
		"a script":                     {open, "GET", "/app.js", "", nil, 200},
		"nothing else of the package":  {open, "GET", "/../doc.go", "", nil, 404},
		"no such file":                 {open, "GET", "/missing.js", "", nil, 404},
		"a page is not posted":         {open, "POST", "/", "", nil, 405},
		"data":                         {open, "GET", "/api/info", "", nil, 200},
		"no such data":                 {open, "GET", "/api/other", "", nil, 404},
		"data by the wrong method":     {open, "POST", "/api/info", "", map[string]string{"X-Holdfast-UI": "1"}, 405},
		"by localhost":                 {open, "GET", "/api/info", "localhost:7117", nil, 200},
		"by IPv6":                      {open, "GET", "/api/info", "[::1]:7117", nil, 200},
		"by an allowed name":           {open, "GET", "/api/info", "ops.example.COM:443", nil, 200},
		"by a rebound name":            {open, "GET", "/api/info", "evil.example.com", nil, 421},
		"the page by a rebound name":   {open, "GET", "/", "evil.example.com", nil, 421},
		"by a name that contains ours": {open, "GET", "/api/info", "localhost.evil.example.com", nil, 421},
		"from the page": {open, "GET", "/api/info", "127.0.0.1:1",
			map[string]string{"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-origin"}, 200},
		"through a proxy with TLS": {open, "GET", "/api/info", "ops.example.com",
			map[string]string{"Origin": "https://ops.example.com"}, 200},
		"from another origin": {open, "GET", "/api/info", "127.0.0.1:1",
			map[string]string{"Origin": "http://evil.example.com"}, 403},
		"from another port": {open, "GET", "/api/info", "127.0.0.1:1",
			map[string]string{"Origin": "http://127.0.0.1:2"}, 403},
		"from a sandbox": {open, "GET", "/api/info", "", map[string]string{"Origin": "null"}, 403},
		"from another site": {open, "GET", "/api/info", "",
			map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"from a site beside": {open, "GET", "/api/events", "",
			map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		"a form": {open, "POST", "/api/refresh", "", nil, 403},
		"a break that is not allowed": {open, "POST", "/api/break", "", map[string]string{"X-Holdfast-UI": "1"},
			403},
		"health that is not there": {open, "GET", "/api/health", "", nil, 404},
		"a name that is none":      {open, "GET", "/api/queue?name=", "", nil, 400},
		"the page without a token": {locked, "GET", "/", "", nil, 200},
		"data without a token":     {locked, "GET", "/api/info", "", nil, 401},
		"data with a wrong token": {locked, "GET", "/api/info", "",
			map[string]string{"Authorization": "Bearer wrong"}, 401},
		"data with a part of the token": {locked, "GET", "/api/info", "",
			map[string]string{"Authorization": "Bearer " + secret[:10]}, 401},
		"data with a bare token": {locked, "GET", "/api/info", "", map[string]string{"Authorization": secret},
			401},
		"data with the token": {locked, "GET", "/api/info", "",
			map[string]string{"Authorization": "Bearer " + secret}, 200},
		"what is missing is not told": {locked, "GET", "/api/other", "", nil, 401},
		"events without a token":      {locked, "GET", "/api/events", "", nil, 401},
		"a break without a token": {locked, "POST", "/api/break", "", map[string]string{"X-Holdfast-UI": "1"},
			401},
		"the token does not open origin": {locked, "GET", "/api/info", "",
			map[string]string{"Authorization": "Bearer " + secret, "Origin": "http://evil.example.com"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader("{}"))
			r.Host = "127.0.0.1:7117"
			if c.host != "" {
				r.Host = c.host
			}
			for key, value := range c.headers {
				r.Header.Set(key, value)
			}
			w := httptest.NewRecorder()
			c.scene.page.ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("%d, want %d: %s", w.Code, c.want, w.Body)
			}
			h := w.Header()
			if policy := h.Get("Content-Security-Policy"); h.Get("X-Frame-Options") != "DENY" ||
				h.Get("X-Content-Type-Options") != "nosniff" ||
				!strings.Contains(policy, "frame-ancestors 'none'") ||
				strings.Contains(policy, "unsafe") ||
				!strings.HasPrefix(policy, "default-src 'none'") ||
				h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%v", h)
			}
			if strings.Contains(w.Body.String(), secret) {
				t.Error("the response has the token")
			}
		})
	}
}

// TestBasePath: all is below the path, and nothing beside it.
func TestBasePath(t *testing.T) {
	s := newScene(t, webui.WithBasePath("/ops/locks"))
	for path, want := range map[string]int{
		"/ops/locks/": 200, "/ops/locks/app.js": 200, "/ops/locks/api/info": 200, "/": 404, "/app.js": 404,
		"/api/info": 404, "/ops/locksmith": 404,
	} {
		if got := s.get(path, nil); got.code != want {
			t.Errorf("%s: %d, want %d", path, got.code, want)
		}
	}
	redirect := s.get("/ops/locks", nil)
	if redirect.path != "/ops/locks/" || redirect.code != http.StatusOK {
		t.Errorf("%d of %s", redirect.code, redirect.path)
	}
	for _, base := range []string{"", "locks", "/a//b", "/a/../b"} {
		if _, err := webui.New(s.client, webui.WithBasePath(base)); err == nil {
			t.Errorf("%q is taken for a path", base)
		}
	}
}

// TestOptions: what cannot be meant is refused.
func TestOptions(t *testing.T) {
	s := newScene(t)
	for name, option := range map[string]webui.Option{
		"a short token":     webui.WithToken("short"),
		"a URL as a host":   webui.WithHosts("http://ops.example.com"),
		"a host and port":   webui.WithHosts("ops.example.com:80"),
		"no host":           webui.WithHosts(""),
		"no health check":   webui.WithHealth(nil),
		"no logger":         webui.WithLogger(nil),
		"no viewers":        webui.WithMaxViewers(0),
		"a store's URL":     webui.WithStoreURL("nonsense"),
		"a secret in a URL": webui.WithStoreURL("redis://h/a@" + secret),
	} {
		_, err := webui.New(s.client, option)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := webui.New(nil); err == nil {
		t.Error("no client is taken for one")
	}
}

// A response is what the page's server has responded, after redirects.
type response struct {
	code   int
	path   string
	header http.Header
}

// get sends a request to the page's server, and decodes the response.
func (s *scene) get(path string, into any) response {
	s.t.Helper()
	return s.send(http.MethodGet, path, nil, into)
}

func (s *scene) post(path string, body, into any) response {
	s.t.Helper()
	raw, err := json.Marshal(body)
	testkit.Must(s.t, err)
	return s.send(http.MethodPost, path, bytes.NewReader(raw), into)
}

func (s *scene) send(method, path string, body io.Reader, into any) response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path, body)
	testkit.Must(s.t, err)
	r.Header.Set("X-Holdfast-UI", "1")
	got, err := s.server.Client().Do(r)
	testkit.Must(s.t, err)
	defer got.Body.Close()
	raw, err := io.ReadAll(got.Body)
	testkit.Must(s.t, err)
	if into != nil {
		testkit.Must(s.t, json.Unmarshal(raw, into))
	}
	return response{got.StatusCode, got.Request.URL.Path, got.Header}
}

// A message is what viewers receive.
type message struct {
	Loaded  bool
	Failing string
	Held    int
	Waiting int
	Rows    []struct {
		Name    string
		Holders int
		Waiters int
		Owner   *store.Owner
		Token   string
	}
	Gone []string
}

// A feed is the connection of one viewer.
type feed struct {
	body    io.Closer
	scanner *bufio.Scanner
	names   map[string]int // the waiters of each name
	last    message
}

// connect opens the connection of a viewer, which ends with the test or by close.
func connect(ctx context.Context, client *http.Client, url string) (*feed, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/events", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(r) //nolint:bodyclose // the feed closes it
	if err != nil {
		return nil, err
	}
	f := &feed{body: response.Body, scanner: bufio.NewScanner(response.Body), names: map[string]int{}}
	f.scanner.Buffer(nil, 64<<20)
	return f, nil
}

// until reads messages until what they report is so, and reports whether that came.
func (f *feed) until(isSo func() bool) bool {
	event := ""
	for !isSo() {
		if !f.scanner.Scan() {
			return false
		}
		line := f.scanner.Text()
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = name
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		f.last = message{}
		if json.Unmarshal([]byte(data), &f.last) != nil {
			return false
		}
		if event == "all" {
			clear(f.names)
		}
		for _, row := range f.last.Rows {
			f.names[row.Name] = row.Waiters
		}
		for _, name := range f.last.Gone {
			delete(f.names, name)
		}
	}
	return true
}

// TestViewers: a hundred viewers all see a name come and go.
func TestViewers(t *testing.T) {
	s := newScene(t)
	s.held("before", store.Owner{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Patience)
	defer cancel()
	const viewers = 100
	var all sync.WaitGroup
	var there, back sync.WaitGroup
	there.Add(viewers)
	back.Add(viewers)
	for i := range viewers {
		all.Go(func() {
			f, err := connect(ctx, s.server.Client(), s.server.URL)
			if err != nil {
				t.Error(err)
				there.Done()
				back.Done()
				return
			}
			defer f.body.Close()
			has := func(name string) func() bool { return func() bool { _, ok := f.names[name]; return ok } }
			if !f.until(has("before")) {
				t.Errorf("viewer %d does not see what was there", i)
			}
			there.Done()
			if !f.until(has("x")) {
				t.Errorf("viewer %d does not see x come", i)
			}
			back.Done()
			if !f.until(func() bool { return !has("x")() }) {
				t.Errorf("viewer %d does not see x go", i)
			}
		})
	}
	there.Wait()
	x := s.held("x", store.Owner{})
	back.Wait()
	testkit.Leave(t, s.store, x)
	all.Wait()
}

// TestTooManyViewers: one more than allowed is refused, until another one has left.
func TestTooManyViewers(t *testing.T) {
	s := newScene(t, webui.WithMaxViewers(1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, err := connect(ctx, s.server.Client(), s.server.URL)
	testkit.Must(t, err)
	if !f.until(func() bool { return f.last.Loaded }) {
		t.Fatal("the first viewer sees nothing")
	}
	if got := s.get("/api/events", nil); got.code != http.StatusServiceUnavailable ||
		got.header.Get("Retry-After") == "" {
		t.Errorf("%d", got.code)
	}
	f.body.Close()
	testkit.Await(t, "there is room again", func() bool {
		next, err := connect(ctx, s.server.Client(), s.server.URL)
		testkit.Must(t, err)
		defer next.body.Close()
		return next.until(func() bool { return next.last.Loaded })
	})
}

// TestCloseEndsViewers: Close ends connections, so that a server can shut down at once.
func TestCloseEndsViewers(t *testing.T) {
	s := newScene(t)
	f, err := connect(t.Context(), s.server.Client(), s.server.URL)
	testkit.Must(t, err)
	defer f.body.Close()
	if !f.until(func() bool { return f.last.Loaded }) {
		t.Fatal("the viewer sees nothing")
	}
	s.page.Close()
	if f.until(func() bool { return false }) {
		t.Error("the connection goes on")
	}
	if got := s.get("/api/events", nil); got.code != http.StatusServiceUnavailable {
		t.Errorf("%d", got.code)
	}
}

// TestStoreFails: viewers are told that the store fails, and go on when it is back.
func TestStoreFails(t *testing.T) {
	failing := &failingStore{Store: memstore.New()}
	client := holdfast.New(failing)
	defer client.Close()
	page, err := webui.New(client)
	testkit.Must(t, err)
	server := httptest.NewServer(page)
	defer server.Close()
	defer page.Close()
	f, err := connect(t.Context(), server.Client(), server.URL)
	testkit.Must(t, err)
	defer f.body.Close()
	if !f.until(func() bool { return f.last.Loaded }) {
		t.Fatal("the viewer sees nothing")
	}
	failing.set(true)
	if !f.until(func() bool { return strings.Contains(f.last.Failing, "out of order") }) {
		t.Fatal("the failure is not told")
	}
	testkit.Held(t, failing.Store, testkit.Claim("x", long))
	failing.set(false)
	if !f.until(func() bool { _, ok := f.names["x"]; return ok && f.last.Failing == "" }) {
		t.Fatal("the end of the failure is not told")
	}
}

// A logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestBreak: exactly the claim with the token is broken, and the log says which and from where.
func TestBreak(t *testing.T) {
	var log logBuffer
	s := newScene(t, webui.WithBreak(), webui.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	f, err := connect(t.Context(), s.server.Client(), s.server.URL)
	testkit.Must(t, err)
	defer f.body.Close()
	s.held("x", store.Owner{Label: "nightly", Host: "web-1", PID: 4711})
	s.waiting("x", store.Owner{Label: "next"})
	if !f.until(func() bool { return f.names["x"] == 1 }) {
		t.Fatal("the queue is not seen")
	}
	q, err := s.client.Inspect(t.Context(), "x")
	testkit.Must(t, err)
	token := q.Entries[0].Token.String()
	if got := s.post("/api/break", map[string]string{"name": "x", "token": "256"},
		nil); got.code != http.StatusConflict {
		t.Errorf("a token that is not there: %d", got.code)
	}
	for _, body := range []any{"nonsense", map[string]string{"name": "x"}, map[string]string{"name": "",
		"token": token}} {
		if got := s.post("/api/break", body, nil); got.code < 400 {
			t.Errorf("%v: %d", body, got.code)
		}
	}
	testkit.CheckLength(t, s.store, "x", 2)
	if got := s.post("/api/break", map[string]string{"name": "x", "token": token}, nil); got.code != http.StatusOK {
		t.Fatalf("%d", got.code)
	}
	testkit.CheckLength(t, s.store, "x", 1)
	for _, want := range []string{"broken on the page", "name=x", "token=" + token, "nightly on web-1 (pid 4711)",
		"by=127.0.0.1:"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in %q", want, log.String())
		}
	}
	var detail struct {
		Events []struct{ Kind, Why, Token string }
	}
	testkit.Await(t, "the timeline has the break", func() bool {
		s.get("/api/queue?name=x", &detail)
		for _, e := range detail.Events {
			if e.Kind == "broken" && e.Token == token && strings.Contains(e.Why, "from 127.0.0.1:") {
				return true
			}
		}
		return false
	})
}

// TestHealth: the check runs when it is requested, and not again for the next viewer.
func TestHealth(t *testing.T) {
	runs := 0
	s := newScene(t, webui.WithHealth(func(context.Context) []webui.Check {
		runs++
		return []webui.Check{
			{
				Name:   "eviction",
				Status: webui.Warn,
				Detail: "allkeys-lru",
				Fix:    "CONFIG SET maxmemory-policy noeviction",
			},
		}
	}))
	if runs != 0 {
		t.Error("the check runs without a viewer")
	}
	for range 3 {
		var got struct{ Checks []webui.Check }
		s.get("/api/health", &got)
		if len(got.Checks) != 1 || got.Checks[0].Status != webui.Warn || runs != 1 {
			t.Errorf("%+v after %d runs", got, runs)
		}
	}
}

// TestRefreshIsBounded: a request with too many names or too long is refused.
func TestRefreshIsBounded(t *testing.T) {
	s := newScene(t)
	if got := s.post("/api/refresh", map[string]any{"names": make([]string, 101)},
		nil); got.code != http.StatusBadRequest {
		t.Errorf("%d", got.code)
	}
	if got := s.post("/api/refresh", map[string]any{"names": []string{strings.Repeat("x", 100_000)}},
		nil); got.code != http.StatusBadRequest {
		t.Errorf("%d", got.code)
	}
}

// TestFilesAreKept: a browser that has a file is told that it is the same.
func TestFilesAreKept(t *testing.T) {
	s := newScene(t)
	first := s.get("/page.css", nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.server.URL+"/page.css", http.NoBody)
	testkit.Must(t, err)
	r.Header.Set("If-None-Match", first.header.Get("Etag"))
	again, err := s.server.Client().Do(r)
	testkit.Must(t, err)
	defer again.Body.Close()
	if again.StatusCode != http.StatusNotModified || first.header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("%d, %v", again.StatusCode, first.header)
	}
}
