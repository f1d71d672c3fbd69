package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// A kv is a client of the keys of one Consul agent.
type kv struct {
	client *http.Client
	url    string
	token  string
}

// dialConsul makes a client of an agent at its port, with TLS unless that is nil. It is closed with the test.
func dialConsul(t *testing.T, c *ConsulServer, tlsConfig *tls.Config) *kv {
	t.Helper()
	via := &http.Transport{TLSClientConfig: tlsConfig}
	t.Cleanup(via.CloseIdleConnections)
	scheme := "http://"
	if tlsConfig != nil {
		scheme = "https://"
	}
	return &kv{&http.Client{Transport: via}, scheme + c.Addr(), c.cluster.set.password}
}

// request makes one request, and returns what came back. A key that is not there is <nil>.
func (k *kv) request(ctx context.Context, method, path, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, k.url+path, bytes.NewBufferString(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("X-Consul-Token", k.token)
	response, err := k.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return "", err
	case response.StatusCode == http.StatusNotFound:
		return "<nil>", nil
	case response.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s: %s", response.Status, said)
	}
	return string(said), nil
}

// put writes a key, and must succeed. A server that has no leader for a moment is tried again.
func (k *kv) put(t *testing.T, key, value string) {
	t.Helper()
	check(t, poll(func(ctx context.Context) error {
		_, err := k.request(ctx, http.MethodPut, "/v1/kv/"+key, value)
		return err
	}))
}

// get reads what a majority has of a key, and must succeed.
func (k *kv) get(t *testing.T, key string) string {
	t.Helper()
	value, err := pollFor(func() (string, error) {
		return k.request(t.Context(), http.MethodGet, "/v1/kv/"+key+"?raw&consistent", "")
	})
	check(t, err)
	return value
}

func TestConsulRestart(t *testing.T) {
	t.Parallel()
	c := Consul(t)
	k := dialConsul(t, c, nil)
	testRestart(t, c.Server, func(value string) { k.put(t, "key", value) }, func() string { return k.get(t, "key") })
}

func TestConsulVolatile(t *testing.T) {
	t.Parallel()
	c := Consul(t, Volatile())
	k := dialConsul(t, c, nil)
	k.put(t, "key", "1")
	check(t, c.Restart(true))
	if got := k.get(t, "key"); got != "<nil>" {
		t.Errorf("the key is %s after a restart", got)
	}
}

func TestConsulPause(t *testing.T) {
	t.Parallel()
	c := Consul(t, Volatile())
	k := dialConsul(t, c, nil)
	k.put(t, "key", "1")
	check(t, c.Pause())
	answered := make(chan error, 1)
	go func() {
		_, err := k.request(t.Context(), http.MethodGet, "/v1/kv/key", "")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a paused server answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	check(t, c.Continue())
	check(t, <-answered)
}

// A session can be made at once, with the checks that it has by default, and be as short as the options say.
func TestConsulSessions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		options  []Option
		shortest time.Duration
	}{
		{"short", []Option{Volatile()}, 500 * time.Millisecond},
		{"Consul's own", []Option{Volatile(), OwnTimeouts()}, 10 * time.Second},
		{"arguments", []Option{Volatile(), Args("-hcl", `session_ttl_min = "3s"`)}, 3 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Consul(t, test.options...)
			create := func(ttl time.Duration) error {
				return c.Call(
					t.Context(),
					http.MethodPut,
					"/v1/session/create",
					map[string]string{"TTL": ttl.String()},
					nil,
				)
			}
			check(t, create(test.shortest))
			if err := create(test.shortest - 1); err == nil || !strings.Contains(err.Error(), "Invalid Session TTL") {
				t.Errorf("a session that is too short: %v", err)
			}
		})
	}
}

// A session that is not renewed ends after twice its time, and not before its time.
func TestConsulSessionEnds(t *testing.T) {
	t.Parallel()
	c := Consul(t, Volatile())
	const ttl = 500 * time.Millisecond
	var session struct{ ID string }
	began := time.Now()
	check(
		t,
		c.Call(t.Context(), http.MethodPut, "/v1/session/create", map[string]string{"TTL": ttl.String()}, &session),
	)
	await(t, "the end of the session", func() bool {
		var there []any
		check(t, c.Call(t.Context(), http.MethodGet, "/v1/session/info/"+session.ID, nil, &there))
		return len(there) == 0
	})
	if lived := time.Since(began); lived < ttl {
		t.Errorf("it ended after %v", lived)
	}
}

func TestConsulRequests(t *testing.T) {
	t.Parallel()
	c := Consul(t, Volatile())
	k := dialConsul(t, c, nil)
	before, err := c.Requests(t.Context())
	check(t, err)
	for range 3 {
		k.put(t, "key", "1")
	}
	k.get(t, "key")
	for request, want := range map[string]int{"PUT v1_kv_": 3, "GET v1_kv_": 1, "PUT v1_txn": 0} {
		await(t, fmt.Sprintf("count of %s as %d", request, want), func() bool { // Consul counts when it has answered
			after, err := c.Requests(t.Context())
			check(t, err)
			return after[request]-before[request] == want
		})
	}
}

// A blocking query counts until its time is over, also if nobody waits for it any more.
func TestConsulBlockingQueries(t *testing.T) {
	t.Parallel()
	c := Consul(t)
	queries := func() int {
		n, err := c.BlockingQueries(t.Context())
		check(t, err)
		return n
	}
	if n := queries(); n != 0 {
		t.Errorf("%d blocking queries at a server without clients", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Call(ctx, http.MethodGet, "/v1/kv/none?index=1000000&wait=1s", nil, nil) }()
	await(t, "a blocking query", func() bool { return queries() == 1 })
	cancel()
	if <-ended == nil {
		t.Error("it has ended by itself")
	}
	await(t, "its end", func() bool { return queries() == 0 })
}

// A policy allows what it says and nothing else, also when the data was lost and the token made anew.
func TestConsulToken(t *testing.T) {
	t.Parallel()
	c := Consul(t, Volatile(), Password(uuid.NewString()))
	k := dialConsul(t, c, nil)
	for _, step := range []string{"first start", "restart without data"} {
		k.token = c.cluster.set.password
		k.put(t, "a/key", "1")
		k.put(t, "b/key", "2")
		var err error
		k.token, err = c.Token(t.Context(), `key_prefix "a/" { policy = "read" }`)
		check(t, err)
		if got := k.get(t, "a/key"); got != "1" {
			t.Errorf("%s: the key is %s", step, got)
		}
		for _, refused := range []struct{ method, path string }{
			{http.MethodPut, "/v1/kv/a/key"},
			{http.MethodGet, "/v1/kv/b/key"},
			{http.MethodPut, "/v1/session/create"},
		} {
			_, err := k.request(t.Context(), refused.method, refused.path, "")
			if err == nil || !strings.Contains(err.Error(), "lacks permission") {
				t.Errorf("%s: %s %s is allowed: %v", step, refused.method, refused.path, err)
			}
		}
		k.token = ""
		if _, err := k.request(t.Context(), http.MethodGet, "/v1/kv/a/key", ""); err == nil {
			t.Errorf("%s: a stranger was served", step)
		}
		check(t, c.Restart(false))
	}
}

// What TLS forbids must be forbidden, and no more than that. The socket speaks HTTP either way.
func TestConsulTLS(t *testing.T) {
	t.Parallel()
	certificates := NewCertificates(t)
	anonymous := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: certificates.Client.RootCAs}
	demand := Args("-hcl", `tls { https { verify_incoming = true } }`)
	for _, test := range []struct {
		name    string
		options []Option
		client  *tls.Config
		served  bool
	}{
		{"TLS", []Option{Volatile(), TLS(certificates)}, anonymous, true},
		{"no TLS", []Option{Volatile(), TLS(certificates)}, nil, false},
		{"certificate", []Option{Volatile(), TLS(certificates), demand}, certificates.Client, true},
		{"no certificate", []Option{Volatile(), TLS(certificates), demand}, anonymous, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Consul(t, test.options...)
			k := dialConsul(t, c, test.client)
			_, err := k.request(t.Context(), http.MethodPut, "/v1/kv/key", "1")
			if (err == nil) != test.served {
				t.Errorf("served: %v", err)
			}
			if !strings.HasPrefix(c.URL(), "https://") {
				t.Errorf("it says that it is at %s", c.URL())
			}
			k = &kv{&http.Client{Transport: &http.Transport{
				DisableKeepAlives: true,
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "unix", c.Socket())
				},
			}}, "http://localhost", ""}
			k.put(t, "key", "2")
			if got := k.get(t, "key"); got != "2" {
				t.Errorf("the key is %s at the socket", got)
			}
		})
	}
}

// The probe said that the ports were free, and a moment later another Consul has one of them.
func TestConsulClash(t *testing.T) {
	t.Parallel()
	stranger, c := Consul(t, Volatile()), newConsulCluster(t, 1, Volatile())
	node := c.Nodes[0]
	picks := 0
	node.pick = pickTaken(stranger.Server, &picks)
	check(t, c.firstStart())
	if picks != consulPorts+1 || node.Port() == stranger.Port() {
		t.Errorf("it runs on ports %v after %d picks, and the stranger on %v", node.ports, picks, stranger.ports)
	}
	dialConsul(t, node, nil).put(t, "key", "1")
	if got := dialConsul(t, stranger, nil).get(t, "key"); got != "<nil>" {
		t.Errorf("the stranger has what was written: %s", got)
	}
}
