package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
)

// A uiRun is holdfast ui, while it runs.
type uiRun struct {
	t     *testing.T
	page  *url.URL // as it was printed
	stop  func()
	ended chan int // the exit code
	mu    sync.Mutex
	said  strings.Builder // stderr
}

func (u *uiRun) Write(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.said.Write(p)
}

func (u *uiRun) errors() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.said.String()
}

// startUI runs holdfast ui until the test ends, and waits for the address that it prints.
func startUI(t *testing.T, store string, args ...string) *uiRun {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	u := &uiRun{t: t, stop: cancel, ended: make(chan int, 1)}
	a := &app{stdin: strings.NewReader(""), stdout: out, stderr: u}
	a.journal.write = func(line string) { a.logf("%s", line) }
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		u.ended <- a.run(ctx, append([]string{"--store=" + store, "ui"}, args...))
		out.Close()
	}()
	t.Cleanup(func() { cancel(); <-gone })
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		t.Fatalf("%v; it says %q", err, u.errors())
	}
	u.page, err = url.Parse(strings.TrimSpace(line))
	check(t, err)
	return u
}

// send sends a request as the page does, with the token of the address.
func (u *uiRun) send(method, call, body string, into any) int {
	u.t.Helper()
	at := *u.page
	at.Fragment = ""
	r, err := http.NewRequestWithContext(u.t.Context(), method, at.String()+"api/"+call, strings.NewReader(body))
	check(u.t, err)
	if token, ok := strings.CutPrefix(u.page.Fragment, "token="); ok {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("X-Holdfast-UI", "1")
	response, err := http.DefaultClient.Do(r)
	check(u.t, err)
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	check(u.t, err)
	if into != nil && response.StatusCode == http.StatusOK {
		check(u.t, json.Unmarshal(raw, into))
	}
	return response.StatusCode
}

// watch connects as a viewer, and returns the data of its messages. It ends with the test.
func (u *uiRun) watch() <-chan string {
	u.t.Helper()
	at := *u.page
	at.Fragment = ""
	ctx, cancel := context.WithCancel(u.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String()+"api/events", http.NoBody)
	check(u.t, err)
	if token, ok := strings.CutPrefix(u.page.Fragment, "token="); ok {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(r) //nolint:bodyclose // the goroutine below closes it
	check(u.t, err)
	messages := make(chan string, 1000)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer close(messages)
		defer response.Body.Close()
		for s := bufio.NewScanner(response.Body); s.Scan(); {
			if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				messages <- data
			}
		}
	}()
	u.t.Cleanup(func() { cancel(); <-gone; http.DefaultClient.CloseIdleConnections() })
	return messages
}

// until waits for a message that fits a pattern.
func until(t *testing.T, messages <-chan string, pattern string) {
	t.Helper()
	fits := regexp.MustCompile(pattern)
	late := time.After(30 * time.Second)
	for last := ""; ; {
		select {
		case data, ok := <-messages:
			if !ok {
				t.Fatalf("the connection ended; the last message was %s", last)
			}
			if last = data; fits.MatchString(data) {
				return
			}
		case <-late:
			t.Fatalf("no message fits %s; the last was %s", pattern, last)
		}
	}
}

// TestUI serves the page of real stores: a lock comes, one waits for it, it is broken on the page, and the next has it.
func TestUI(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "locks.db") },
		"redis":    func(t *testing.T) string { return "redis://" + servers.Redis(t).Addr() },
		"postgres": func(t *testing.T) string { return servers.Postgres(t).URL("postgres", "", "postgres") },
		"etcd":     func(t *testing.T) string { return "etcd://" + servers.Etcd(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			u := startUI(t, store, "--allow-break", "--listen", "127.0.0.1:0")
			messages := u.watch()
			until(t, messages, `"loaded":true`)
			holder, err := holdfast.Open(t.Context(), store, holdfast.WithLabel("first"))
			check(t, err)
			defer holder.Close()
			lease, err := holder.Mutex("nightly").Lock(t.Context())
			check(t, err)
			until(t, messages, `"name":"nightly".*"label":"first".*"token":"`+lease.Token().String()+`"`)
			waiter, err := holdfast.Open(t.Context(), store, holdfast.WithLabel("second"))
			check(t, err)
			defer waiter.Close()
			granted := make(chan error, 1)
			go func() {
				_, err := waiter.Mutex("nightly").Lock(t.Context())
				granted <- err
			}()
			until(t, messages, `"waiters":1`)
			var detail struct{ Entries []struct{ Until int64 } }
			if code := u.send(http.MethodGet, "queue?name=nightly", "", &detail); code != 200 ||
				len(detail.Entries) != 2 ||
				detail.Entries[0].Until == 0 {
				t.Errorf("%d, %+v", code, detail)
			}
			var health struct {
				Checks []struct{ Name, Status string }
			}
			if code := u.send(http.MethodGet, "health", "", &health); code != 200 || len(health.Checks) < 3 {
				t.Errorf("%d, %+v", code, health)
			}
			for _, c := range health.Checks {
				if c.Name == "" || !regexp.MustCompile(`^(OK|WARN|FAIL)$`).MatchString(c.Status) {
					t.Errorf("%+v", c)
				}
			}
			entry := `{"name":"nightly","token":"` + lease.Token().String() + `"}`
			if code := u.send(http.MethodPost, "break", entry, nil); code != 200 {
				t.Fatalf("break: %d; %s", code, u.errors())
			}
			check(t, <-granted)
			<-lease.Context().Done()
			until(t, messages, `"label":"second"`)
			reports := regexp.MustCompile(`holdfast: broken on the page; name: nightly; token: ` +
				lease.Token().String() + `; holder: first on .*; by: 127\.0\.0\.1:\d+\n`)
			if said := u.errors(); !reports.MatchString(said) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// TestUIEnds: Ctrl-C ends the command within a second, also with a viewer.
func TestUIEnds(t *testing.T) {
	u := startUI(t, storeOf(t), "--listen", "127.0.0.1:0")
	messages := u.watch()
	until(t, messages, `"loaded":true`)
	begin := time.Now()
	u.stop() // as a signal does
	if code := <-u.ended; code != 0 || u.errors() != "" {
		t.Errorf("it exits with %d and says %q", code, u.errors())
	}
	if took := time.Since(begin); took > 10*time.Second { // a busy machine; alone it is some milliseconds
		t.Errorf("it took %v", took)
	}
}

// TestUIToken: where another user or machine can reach the page it has a token, which nothing but the address shows.
func TestUIToken(t *testing.T) {
	const given = "a token of an operator"
	for _, c := range []struct {
		name, env string
		args      []string
		token     string // a pattern
	}{
		{"on this machine", "", nil, `^$`},
		{"with a token", given, nil, `^token=a token of an operator$`},
		{"that may break", "", []string{"--allow-break"}, `^token=\S{26}$`},
		{"elsewhere", "", []string{"--listen", "0.0.0.0:0"}, `^token=\S{26}$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(uiTokenEnv, c.env)
			args := c.args
			if !strings.Contains(strings.Join(args, " "), "--listen") {
				args = append([]string{"--listen", "127.0.0.1:0"}, args...)
			}
			u := startUI(t, storeOf(t), args...)
			fragment, err := url.QueryUnescape(u.page.Fragment)
			check(t, err)
			if !regexp.MustCompile(c.token).MatchString(fragment) {
				t.Errorf("the address is %s", u.page)
			}
			_, port, err := net.SplitHostPort(u.page.Host)
			check(t, err)
			u.page.Host = "127.0.0.1:" + port
			u.page.Fragment = fragment
			if code := u.send(http.MethodGet, "info", "", nil); code != 200 {
				t.Errorf("with the token of the address: %d", code)
			}
			if fragment != "" {
				u.page.Fragment = ""
				if code := u.send(http.MethodGet, "info", "", nil); code != 401 {
					t.Errorf("without a token: %d", code)
				}
				if strings.Contains(u.errors(), strings.TrimPrefix(fragment, "token=")) {
					t.Errorf("the token is in %q", u.errors())
				}
			}
		})
	}
}

// TestUICopiesNoPassword: the commands that the page offers have the store's URL without what is secret.
func TestUICopiesNoPassword(t *testing.T) {
	server := servers.Redis(t, servers.Password(hush))
	u := startUI(t, "redis://:"+hush+"@"+server.Addr()+"?prefix=team", "--listen", "127.0.0.1:0", "--base-path",
		"/locks", "--prefix", "dep")
	var info struct{ URL, Store, Prefix string }
	if code := u.send(http.MethodGet, "info", "", &info); code != 200 ||
		info.URL != "redis://"+server.Addr()+"?prefix=team" || info.Prefix != "dep" ||
		strings.Contains(info.Store, hush) || u.page.Path != "/locks/" {
		t.Errorf("%d, %+v at %s", code, info, u.page)
	}
}

// TestUIUsage: what cannot be meant is refused in one line.
func TestUIUsage(t *testing.T) {
	for args, says := range map[string]string{
		"ui x":                                      "no arguments",
		"ui --listen nonsense":                      "not HOST:PORT",
		"ui --listen 127.0.0.1:99999":               "--listen",
		"ui --listen 127.0.0.1:0 --host a/b":        "not a host name",
		"ui --listen 127.0.0.1:0 --base-path locks": "not a base path",
	} {
		t.Run(args, func(t *testing.T) { call(t, strings.Fields(args)...).complains(t, exitUsage, says) })
	}
	t.Setenv(uiTokenEnv, "short")
	call(t, "ui", "--listen", "127.0.0.1:0").complains(t, exitUsage, "at least 16 bytes")
}
