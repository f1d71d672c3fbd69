package stores_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/misplaced"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/otelholdfast"
	"github.com/holdfast-go/holdfast/store"
)

// schemes are those of all stores.
func schemes(t testing.TB) []string {
	t.Helper()
	_, err := store.Open(context.Background(), store.Location{Scheme: "none"})
	known := regexp.MustCompile(`\(known: (.*)\)`).FindStringSubmatch(err.Error())
	if known == nil {
		t.Fatalf("%v, which does not say what is known", err)
	}
	return strings.Split(known[1], ", ")
}

// TestMisplacedSecrets: somebody opens a URL with a secret in its place or in any other. Nothing that is printed or
// logged shows a piece of the secret.
func TestMisplacedSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	log := captureLog(t)
	for _, scheme := range schemes(t) {
		t.Run(scheme, func(t *testing.T) {
			rejected, failed := 0, 0
			for url := range misplaced.URLs(scheme) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				printed, err := printedOf(ctx, url.Text)
				cancel()
				if printed += log.Take(); url.In(printed) {
					t.Errorf("%q shows its secret:\n%s", url.Text, printed)
				}
				if store.Rejected(err) {
					rejected++
				} else if err != nil {
					failed++
				}
			}
			t.Logf("%d were rejected, %d led to no server", rejected, failed)
			if servers := scheme != "memory" && scheme != "sqlite"; rejected == 0 || servers && failed == 0 {
				t.Errorf("%d were rejected, %d led to no server: they do not show what they are for", rejected, failed)
			}
		})
	}
}

// captureLog has the default logger write to a buffer until the test ends.
func captureLog(t *testing.T) *testkit.Log {
	var log testkit.Log
	before := slog.Default()
	slog.SetDefault(log.Logger())
	t.Cleanup(func() { slog.SetDefault(before) })
	return &log
}

// printedOf opens a URL and returns all that a program may print of it and of what comes of it.
func printedOf(ctx context.Context, url string) (printed string, err error) {
	locks, err := holdfast.Open(ctx, url)
	if err == nil {
		locks.Close()
	}
	var all strings.Builder
	for e := err; e != nil; e = errors.Unwrap(e) {
		fmt.Fprintf(&all, "%v\n%+v\n", e, e)
	}
	at, parsed := store.ParseLocation(url)
	if parsed == nil && !store.Rejected(err) {
		fmt.Fprintln(&all, at)
	}
	return all.String(), err
}

// TestSecretsOfOpenStores: a client locks and unlocks, its server dies, and it tries again. Neither errors nor logs,
// traces, metrics or the store's name show the password. A user without a password is kept from them too, when the
// server repeats it.
func TestSecretsOfOpenStores(t *testing.T) {
	log := captureLog(t)
	secret := misplaced.Of("$", "-")
	password := servers.Password(secret.Text)
	t.Run("redis", func(t *testing.T) {
		server := servers.Redis(t, password)
		checkOpenStore(t, log, secret, "redis://:"+secret.Text+"@"+server.Addr(), server.Kill)
	})
	t.Run("etcd", func(t *testing.T) {
		server := servers.Etcd(t, password)
		checkOpenStore(t, log, secret, "etcd://root:"+secret.Text+"@"+server.Addr(), server.Kill)
	})
	t.Run("zk", func(t *testing.T) {
		server := servers.ZooKeeper(t) // a user is whoever knows the password
		checkOpenStore(t, log, secret, zooKeeperURL(server, "root:"+secret.Text+"@"), server.Kill)
	})
	t.Run("consul", func(t *testing.T) {
		server := servers.Consul(t, password)
		checkOpenStore(t, log, secret, "consul://:"+secret.Text+"@"+server.Addr(), server.Kill)
	})
	t.Run("postgres", func(t *testing.T) {
		server := servers.Postgres(t, password)
		checkOpenStore(t, log, secret, server.URL("postgres", secret.Text, "postgres"), server.Kill)
	})
	t.Run("mysql", func(t *testing.T) {
		server, _ := mariaDB(t, password)
		checkOpenStore(t, log, secret, server.URL("root", secret.Text, "locks"), server.Kill)
	})
	t.Run("redlock", func(t *testing.T) {
		a, b, c := servers.Redis(t, password), servers.Redis(t, password), servers.Redis(t, password)
		url := redlockURL(t, ":"+secret.Text+"@", a, b, c)
		checkOpenStore(t, log, secret, url, func() error { return errors.Join(a.Kill(), b.Kill()) })
	})
	t.Run("a user without a password", func(t *testing.T) {
		var hosts []string
		for range 3 {
			hosts = append(hosts, refusingServer(t, "-NOPERM User "+secret.Text+" has no permissions\r\n"))
		}
		for _, url := range []string{"redis://$@" + hosts[0], "redlock://$@" + strings.Join(hosts, ",")} {
			printed, err := printedOf(t.Context(), strings.ReplaceAll(url, "$", secret.Text))
			if printed += log.Take(); secret.In(printed) || !strings.Contains(printed, "lacks a permission") {
				t.Errorf("%v\n%s", err, printed)
			}
		}
	})
}

// refusingServer is the address of a server that answers every command of Redis with this error, as later versions do.
func refusingServer(t *testing.T, refusal string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if strings.HasPrefix(lines.Text(), "*") { // a command begins
						io.WriteString(conn, refusal) //nolint:errcheck // the client sees that it is gone
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// checkOpenStore uses a store until it is killed, and looks for the secret in all that is told of it.
func checkOpenStore(t *testing.T, log *testkit.Log, secret misplaced.URL, url string, kill func() error) {
	t.Helper()
	reader, spans := metric.NewManualReader(), tracetest.NewInMemoryExporter()
	observer, err := otelholdfast.New(
		otelholdfast.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))),
		otelholdfast.WithTracerProvider(trace.NewTracerProvider(trace.WithSyncer(spans))))
	testkit.Must(t, err)
	locks, err := holdfast.Open(t.Context(), url, holdfast.WithObserver(observer))
	testkit.Must(t, err)
	lease := testkit.Lock(t, locks, "x")
	testkit.Must(t, lease.Unlock(t.Context()))
	testkit.Must(t, kill())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a fault comes before
	defer cancel()
	_, failed := locks.Mutex("x").TryLock(ctx)
	if failed == nil || ctx.Err() != nil {
		t.Errorf("without a server: %v", failed)
	}
	locks.Close()
	var metrics metricdata.ResourceMetrics
	testkit.Must(t, reader.Collect(t.Context(), &metrics))
	told, err := json.Marshal([]any{spans.GetSpans(), metrics})
	testkit.Must(t, err)
	if !bytes.Contains(told, []byte("holdfast.wait")) {
		t.Errorf("no wait was traced: %s", told)
	}
	if printed := fmt.Sprint(string(told), failed, log.Take()); secret.In(printed) {
		t.Errorf("the password is shown:\n%s", printed)
	}
}

// FuzzMisplacedSecrets: a URL with a secret anywhere is opened with a context that is done, so that nothing is
// reached. If it is rejected, nothing of the secret is shown. If it is accepted, the secret is shown only where it is
// in a part that is meant to be shown.
func FuzzMisplacedSecrets(f *testing.F) {
	for _, scheme := range schemes(f) {
		f.Add(scheme+"://user:", "/", "@127.0.0.1:1")
		f.Add(scheme+":", "", "@h")
		f.Add(scheme+"://h/0?pwd=", "&", "")
		f.Add(scheme+"://", "?", "@h1,h2,h3/main?sentinel-password=x&db=1")
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	f.Fuzz(func(t *testing.T, before, separator, after string) {
		url := misplaced.Of(before+"$"+after, separator)
		at, err := store.ParseLocation(url.Text)
		if err == nil && (at.Scheme == "sqlite" || at.Scheme == "memory") && len(at.Hosts) == 0 {
			return // it is the name of a file, which would be made
		}
		printed, err := printedOf(done, url.Text)
		if !url.In(printed) {
			return
		}
		shown := strings.Join(at.Hosts, ",") + at.Path + at.Prefix
		if password, has := at.User.Password(); has && password != "" {
			shown += at.User.Username()
		}
		for _, name := range strings.Fields("ca cert key server-name") {
			shown += at.Query.Get(name)
		}
		if store.Rejected(err) || !url.In(shown) {
			t.Errorf("%q shows its secret:\n%s", url.Text, printed)
		}
	})
}
