package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
)

// TestDoctor checks the exit codes, and the shape of what is written.
func TestDoctor(t *testing.T) {
	call(t, "doctor").want(t, 0, `(?m)^OK    lock          a lock under`, nothing)
	call(t, "doctor", "--strict").want(t, 0, "OK", nothing)
	call(t, "doctor", "x").complains(t, exitUsage, "unknown command")
	gone := bare(t, "--store=redis://:secret@127.0.0.1:1", "doctor")
	gone.want(t, exitStore, `(?m)^FAIL  reachable .*\n +why:  .*\n +fix:  .*\nFAIL  open `,
		"^holdfast: the store is not fit for locks")
	if strings.Contains(gone.out+gone.errors, "secret") {
		t.Error(gone)
	}
	bare(t, "--store=redis://127.0.0.1:1", "doctor", "--json").want(t, exitStore, `"level": "FAIL"`, "^holdfast: ")
	bare(t, "--store=nosuch://h", "doctor").complains(t, exitUsage, "no store is registered")
	bare(t, "--store=secret", "doctor").complains(t, exitUsage, "scheme")
	bare(t, "--store=redis://h/secret", "doctor").complains(t, exitUsage, "")
}

// TestStoresEndToEnd has doctor, wait, ls and exporter look at a lock that is held, on stores of each family.
func TestStoresEndToEnd(t *testing.T) {
	for name, start := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "locks.db") },
		"redis":    func(t *testing.T) string { return "redis://" + servers.Redis(t).Addr() },
		"postgres": func(t *testing.T) string { return servers.Postgres(t).URL("postgres", "", "postgres") },
		"etcd":     func(t *testing.T) string { return "etcd://" + servers.Etcd(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			c, err := holdfast.Open(t.Context(), url)
			check(t, err)
			defer c.Close()
			l, err := c.Mutex("deploy/eu").Lock(t.Context())
			check(t, err)
			r := bare(t, "--store="+url, "doctor", "--json")
			var report struct {
				Findings []struct{ Check, Level, Found string }
			}
			check(t, json.Unmarshal([]byte(r.out), &report))
			seen := map[string]string{}
			for _, f := range report.Findings {
				seen[f.Check] = f.Level + " " + f.Found
			}
			for _, want := range []string{
				"lock", "round trip", "version", "clock", "queues", "deadlocks", "permissions",
			} {
				slow := want == "round trip" && strings.HasPrefix(seen[want], "WARN p50") // the machine may be busy
				if !strings.HasPrefix(seen[want], "OK ") && !slow {
					t.Errorf("%s: %q in %s", want, seen[want], r.out)
				}
			}
			if !strings.HasPrefix(seen["queues"], "OK 1 names in use, with 1 claims that hold") {
				t.Errorf("%q", seen["queues"])
			}
			bare(t, "--store="+url, "wait", "--held", "deploy/eu").want(t, 0, nothing, nothing)
			bare(t, "--store="+url, "wait", "--timeout", "0", "deploy/eu").complains(t, exitBusy, "still in use")
			testExporter(t, url)
			elect := func(args ...string) result {
				return callOnFiles(t, append([]string{"--store=" + url, "elect"}, args...)...)
			}
			elect("--wait", "50ms", "deploy/eu", "--", "true").want(t, exitBusy, nothing, "^holdfast: ")
			check(t, l.Unlock(t.Context()))
			elect("deploy/eu", "--", "sh", "-c", "exit 7").want(t, 7, nothing, nothing)
			bare(t, "--store="+url, "wait", "--timeout", "1m", "deploy/eu").want(t, 0, nothing, nothing)
		})
	}
}

// testExporter runs an exporter until it has reported the lock deploy/eu.
func testExporter(t *testing.T, url string) {
	t.Helper()
	var errs safeBuffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &errs}
	a.journal.write = func(string) {}
	ended := make(chan int, 1)
	go func() {
		ended <- a.run(ctx, []string{"--store=" + url, "exporter", "--listen=127.0.0.1:0", "--every=100ms"})
	}()
	served := regexp.MustCompile(`served at (http://\S+)`)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if at := served.FindStringSubmatch(errs.String()); at != nil {
			if text := get(at[1]); strings.Contains(text, `holdfast_store_held_locks{prefix="deploy/"} 1`) {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the lock is not reported: %s", errs.String())
		}
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	http.DefaultClient.CloseIdleConnections()
}

func get(url string) string {
	r, err := http.Get(url) //nolint:gosec,noctx // it is the test's own
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return string(text)
}

// TestExporterRefuses what cannot be served.
func TestExporterRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	call(t, "exporter", "--listen", taken.Addr().String()).complains(t, exitUsage, "address already in use")
	call(t, "exporter", "--listen", "none").complains(t, exitUsage, "are not served")
	call(t, "exporter", "--listen", "nonsense").complains(t, exitUsage, "--listen")
	call(t, "exporter", "--otlp", "collector:4317").complains(t, exitUsage, "--otlp")
	call(t, "exporter", "--max-prefixes", "0").complains(t, exitUsage, "--max-prefixes")
	call(t, "exporter", "--every", "1ms").complains(t, exitUsage, "--every")
	bare(t, "--store=nosuch://h", "exporter",
		"--listen=127.0.0.1:0").want(t, exitUsage, nothing, "no store is registered")
	bare(t, "--store=secret", "exporter").complains(t, exitUsage, "scheme")
}

// A safeBuffer is written to and read at the same time.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
