package exporter_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/exporter"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redlock"
	"github.com/holdfast-go/holdfast/store"
	_ "github.com/holdfast-go/holdfast/stores"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// follow runs an exporter of the store at a URL until the test ends.
func follow(t *testing.T, url string, change func(*exporter.Config)) *exporter.Exporter {
	t.Helper()
	config := exporter.Config{
		Open: func(ctx context.Context) (*holdfast.Client, string, bool, error) {
			c, err := holdfast.Open(ctx, url)
			return c, url, true, err
		},
		Separators: "/:", MaxPrefixes: 100, Every: 100 * time.Millisecond, Changed: func(error) {},
	}
	if change != nil {
		change(&config)
	}
	e := exporter.New(config)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		testkit.Check(t, <-ended)
	})
	return e
}

// scrape returns what an exporter serves.
func scrape(e *exporter.Exporter, path string) (code int, text string) {
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// await scrapes until there are lines that match all of these patterns.
func await(t *testing.T, e *exporter.Exporter, patterns ...string) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, text := scrape(e, "/metrics")
		missing := slices.DeleteFunc(slices.Clone(patterns), func(p string) bool {
			return regexp.MustCompile(`(?m)^` + p + `$`).MatchString(text)
		})
		if len(missing) == 0 {
			return text
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %q in\n%s", missing, text)
		}
	}
}

// use has one client hold names, and another wait for the first of them.
func use(t *testing.T, url string, names ...string) {
	t.Helper()
	c, err := holdfast.Open(t.Context(), url)
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	for _, name := range names {
		_, err := c.Mutex(name).Lock(ctx)
		testkit.Must(t, err)
	}
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		c.RWMutex(names[0]).RLock(ctx) //nolint:errcheck // it waits until it is cancelled
	}()
	t.Cleanup(func() {
		cancel()
		<-waited
		testkit.Check(t, c.Close())
	})
}

// TestMetrics: what is held and waited for is counted by prefix, on each kind of store.
func TestMetrics(t *testing.T) {
	long := strings.Repeat("🔒", store.MaxName/4-1) + "/abc"
	for name, start := range map[string]func(*testing.T) string{
		"memory":   func(*testing.T) string { return "memory:exporter" },
		"sqlite":   func(t *testing.T) string { return "sqlite:" + t.TempDir() + "/locks.db" },
		"redis":    func(t *testing.T) string { return "redis://" + servers.Redis(t).Addr() },
		"postgres": func(t *testing.T) string { return servers.Postgres(t).URL("postgres", "", "postgres") },
		"etcd":     func(t *testing.T) string { return "etcd://" + servers.Etcd(t).Addr() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			use(t, url, "deploy/eu", "deploy/us", "plain", "q\"uo\nte:1", long)
			e := follow(t, url, nil)
			text := await(t, e, `holdfast_store_up 1`, `holdfast_store_names 5`,
				`holdfast_store_held_locks\{prefix="deploy/"\} 2`, `holdfast_store_held_claims\{prefix="deploy/"\} 2`,
				`holdfast_store_waiting_claims\{prefix="deploy/"\} 1`, `holdfast_store_held_locks\{prefix=""\} 1`,
				`holdfast_store_held_locks\{prefix="q\\"uo\\nte:"\} 1`, `holdfast_store_held_locks\{prefix="🔒+/"\} 1`,
				`holdfast_store_oldest_wait_seconds\{prefix="deploy/"\} [0-9.e-]+`,
				`holdfast_store_longest_hold_seconds\{prefix="deploy/"\} [0-9.e-]+`,
				`holdfast_store_expiring_claims\{prefix="deploy/"\} 0`, `holdfast_store_round_trip_seconds [0-9.e-]+`)
			for _, metric := range exporter.Names() {
				if !strings.Contains(text, "# HELP "+metric+" ") || !strings.Contains(text, "\n"+metric) {
					t.Errorf("no %s in\n%s", metric, text)
				}
			}
			if code, _ := scrape(e, "/healthz"); code != http.StatusOK {
				t.Errorf("/healthz: %d", code)
			}
		})
	}
}

// TestPrefixes: names are counted as they are told to be, and not under more prefixes than allowed.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	url := "memory:exporter-prefixes"
	use(t, url, "a/1", "a/2", "b/1", "c.1", "shop/x")
	await(t, follow(t, url, func(c *exporter.Config) { c.ByName = true }),
		`holdfast_store_held_locks\{prefix="a/1"\} 1`, `holdfast_store_held_locks\{prefix="c\.1"\} 1`)
	await(t, follow(t, url, func(c *exporter.Config) { c.Separators = "." }),
		`holdfast_store_held_locks\{prefix=""\} 4`, `holdfast_store_held_locks\{prefix="c\."\} 1`)
	await(t, follow(t, url, func(c *exporter.Config) { c.Prefix = "shop/" }), `holdfast_store_names 1`)
	await(t, follow(t, url, func(c *exporter.Config) { c.MaxPrefixes = 1 }),
		`holdfast_store_held_locks\{prefix="a/"\} 2`, `holdfast_store_held_locks\{prefix="\(other\)"\} 3`)
}

// TestExpiring: a holder that was stopped is reported before its lease is over, and one that renews is not.
func TestExpiring(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	url := "redis://" + server.Addr()
	use(t, url+"?ttl=2s", "live/1")
	s, err := store.Open(t.Context(), must(t, url))
	testkit.Must(t, err)
	defer s.Close()
	s.Notify(func(store.ID, store.Status) {})
	_, err = s.Join(t.Context(), store.Claim{ // which nothing renews
		ID: store.ID{1}, Name: "dead/1", TTL: 6 * time.Second, Owner: &store.Owner{},
		Demand: store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
	})
	testkit.Must(t, err)
	await(t, follow(t, url, nil), `holdfast_store_expiring_claims\{prefix="dead/"\} 1`,
		`holdfast_store_expiring_claims\{prefix="live/"\} 0`)
}

func must(t *testing.T, url string) store.Location {
	t.Helper()
	at, err := store.ParseLocation(url)
	testkit.Must(t, err)
	return at
}

// TestStoreGoneAndBack: the store is away when the exporter starts, comes, goes and comes again.
func TestStoreGoneAndBack(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t)
	url := "redis://" + server.Addr()
	testkit.Must(t, server.Kill())
	var mu sync.Mutex
	var told []bool
	e := follow(t, url, func(c *exporter.Config) {
		c.Changed = func(err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, err == nil)
		}
	})
	await(t, e, `holdfast_store_up 0`)
	if code, _ := scrape(e, "/healthz"); code != http.StatusServiceUnavailable {
		t.Errorf("/healthz: %d", code)
	}
	testkit.Must(t, server.Start())
	use(t, url, "a/1")
	await(t, e, `holdfast_store_up 1`, `holdfast_store_held_locks\{prefix="a/"\} 1`)
	testkit.Must(t, server.Kill())
	if text := await(t, e, `holdfast_store_up 0`); strings.Contains(text, "holdfast_store_held_locks{") {
		t.Errorf("what is not known is reported:\n%s", text)
	}
	testkit.Must(t, server.Start())
	await(t, e, `holdfast_store_up 1`, `holdfast_store_held_locks\{prefix="a/"\} 1`)
	mu.Lock()
	defer mu.Unlock()
	if want := []bool{false, true, false, true}; !slices.Equal(told, want) {
		t.Errorf("it told %v, want %v", told, want)
	}
}

// TestOpenForGood: an error that will not go away ends Run.
func TestOpenForGood(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	e := exporter.New(exporter.Config{Open: func(context.Context) (*holdfast.Client, string, bool, error) {
		return nil, "", false, wrong
	}})
	if err := e.Run(t.Context()); !errors.Is(err, wrong) {
		t.Errorf("%v", err)
	}
}

// TestRedlock: a store that cannot list its names ends Run.
func TestRedlock(t *testing.T) {
	t.Parallel()
	nodes := []string{servers.Redis(t).Addr(), servers.Redis(t).Addr(), servers.Redis(t).Addr()}
	url := "redlock://" + strings.Join(nodes, ",")
	_, err := redlock.Init(t.Context(), url)
	testkit.Must(t, err)
	e := exporter.New(exporter.Config{
		Every: time.Minute, Changed: func(error) {},
		Open: func(ctx context.Context) (*holdfast.Client, string, bool, error) {
			c, err := holdfast.Open(ctx, url)
			return c, url, true, err
		},
	})
	if err := e.Run(t.Context()); !errors.Is(err, holdfast.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

// TestOTLP: the same metrics are pushed.
func TestOTLP(t *testing.T) {
	t.Parallel()
	pushed := make(chan map[string]float64, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request metricspb.ExportMetricsServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/metrics" {
			t.Errorf("%s: %v", r.URL, err)
		}
		values := map[string]float64{}
		for _, resource := range request.ResourceMetrics {
			for _, scope := range resource.ScopeMetrics {
				for _, metric := range scope.Metrics {
					for _, point := range metric.GetGauge().GetDataPoints() {
						label := metric.Name
						for _, a := range point.Attributes {
							if a.Key == "holdfast.prefix" {
								label += " " + a.Value.GetStringValue()
							}
						}
						values[label] = point.GetAsDouble()
					}
				}
			}
		}
		pushed <- values
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer receiver.Close()
	url := "memory:exporter-otlp"
	use(t, url, "a/1")
	e := follow(t, url, nil)
	stop, err := e.Push(t.Context(), receiver.URL, 50*time.Millisecond)
	testkit.Must(t, err)
	for deadline := time.After(30 * time.Second); ; {
		select {
		case values := <-pushed:
			held, waiting := values["holdfast.store.held_locks a/"], values["holdfast.store.waiting_claims a/"]
			if values["holdfast.store.up"] == 1 && held == 1 && waiting == 1 {
				testkit.Check(t, stop(t.Context()))
				return
			}
		case <-deadline:
			t.Fatal("not pushed")
		}
	}
}

// TestPushNowhere: what is not a receiver's URL is refused.
func TestPushNowhere(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"collector:4318", "grpc://collector:4317", "http://", "%"} {
		if _, err := exporter.New(exporter.Config{}).Push(t.Context(), url, time.Second); err == nil {
			t.Errorf("%s is taken", url)
		}
	}
}

// TestMonitoring: dashboard and alert rules ask only for what is scraped, with labels that it has.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	known := exporter.Names()
	used := map[string]bool{}
	for _, file := range []string{"dashboard.json", "alerts.yml"} {
		text, err := os.ReadFile("../../docs/monitoring/" + file)
		testkit.Must(t, err)
		found := regexp.MustCompile(`\bholdfast_\w+`).FindAllString(string(text), -1)
		if len(found) < 5 {
			t.Errorf("%s names %d metrics", file, len(found))
		}
		for _, metric := range found {
			used[metric] = true
			if !slices.Contains(known, metric) {
				t.Errorf("%s asks for %s, which is not exported", file, metric)
			}
		}
		for _, labels := range regexp.MustCompile(`(?:by|on) \(([^)]*)\)`).FindAllStringSubmatch(string(text), -1) {
			for label := range strings.SplitSeq(labels[1], ", ") {
				if label != "prefix" && label != "instance" {
					t.Errorf("%s groups by %s, which no metric has", file, label)
				}
			}
		}
	}
	for _, metric := range known {
		if !used[metric] {
			t.Errorf("neither dashboard nor alert rules use %s", metric)
		}
	}
	var dashboard struct {
		Title  string
		Panels []struct {
			ID      int
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("../../docs/monitoring/dashboard.json")
	testkit.Must(t, err)
	testkit.Must(t, json.Unmarshal(text, &dashboard))
	ids := map[int]bool{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || len(p.Targets) == 0 || p.Targets[0].Expr == "" {
			t.Errorf("panel %+v", p)
		}
		ids[p.ID] = true
	}
	operations, err := os.ReadFile("../../docs/operations.md")
	testkit.Must(t, err)
	for _, metric := range known {
		if !strings.Contains(string(operations), "`"+metric+"`") {
			t.Errorf("docs/operations.md does not have %s", metric)
		}
	}
}
