package servers

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// put writes a key, and must succeed.
func put(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	if _, err := c.Put(ctx, key, value); err != nil {
		t.Fatalf("put: %v", err)
	}
}

// get reads a key, and must succeed. A key that is not there is <nil>.
func get(t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	answer, err := c.Get(ctx, key)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	if len(answer.Kvs) == 0 {
		return "<nil>"
	}
	return string(answer.Kvs[0].Value)
}

func TestEtcdRestart(t *testing.T) {
	t.Parallel()
	e := Etcd(t)
	c := e.Client(t)
	testRestart(t, e.Server, func(value string) { put(t, c, "key", value) }, func() string { return get(t, c, "key") })
}

func TestEtcdPause(t *testing.T) {
	t.Parallel()
	e := Etcd(t)
	c := e.Client(t)
	put(t, c, "key", "1")
	check(t, e.Pause())
	answered := make(chan error, 1)
	go func() {
		_, err := c.Get(t.Context(), "key")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a paused server answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	check(t, e.Continue())
	check(t, <-answered)
}

func TestEtcdOptions(t *testing.T) {
	t.Parallel()
	certificates := NewCertificates(t)
	for _, test := range []struct {
		name    string
		options []Option
		metric  string
		want    float64
	}{
		{"arguments", []Option{Args("--quota-backend-bytes", "16777216")}, "etcd_server_quota_backend_bytes", 16777216},
		{"environment", []Option{Env("ETCD_QUOTA_BACKEND_BYTES=33554432")}, "etcd_server_quota_backend_bytes",
			33554432},
		{"password", []Option{Password("correct horse")}, "etcd_server_is_leader", 1},
		{"TLS", []Option{TLS(certificates)}, "etcd_server_is_leader", 1},
		{"client certificates", []Option{TLS(certificates), Args(demandCertificates(certificates)...), Password("p")},
			"etcd_server_is_leader", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := Etcd(t, test.options...)
			put(t, e.Client(t), "key", "1")
			metrics, err := e.Metrics()
			if got, there := metrics[test.metric]; err != nil || !there || got != test.want {
				t.Errorf("%s is %v, want %v: %v", test.metric, got, test.want, err)
			}
		})
	}
}

func demandCertificates(c *Certificates) []string {
	return []string{"--client-cert-auth", "--trusted-ca-file", c.CAFile}
}

// What the options forbid must be forbidden, also when the data is lost.
func TestEtcdRefuses(t *testing.T) {
	t.Parallel()
	certificates := NewCertificates(t)
	anonymous := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: certificates.Client.RootCAs}
	// A connection that cannot be made is tried again and again.
	const never = "deadline exceeded"
	for _, test := range []struct {
		name     string
		options  []Option
		stranger clientv3.Config
		want     string
	}{
		{"no login", []Option{Password("correct horse")}, clientv3.Config{}, rpctypes.ErrUserEmpty.Error()},
		{"wrong password", []Option{Password("correct horse")}, clientv3.Config{Username: "root", Password: "wrong"},
			rpctypes.ErrAuthFailed.Error()},
		{"no TLS", []Option{TLS(certificates)}, clientv3.Config{}, never},
		{"no certificate", []Option{TLS(certificates), Args(demandCertificates(certificates)...)},
			clientv3.Config{TLS: anonymous}, never},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := Etcd(t, test.options...)
			refused := func(step string) {
				t.Helper()
				config := e.cluster.config([]string{e.Addr()})
				config.TLS, config.Username, config.Password = test.stranger.TLS, test.stranger.Username,
					test.stranger.Password
				patience := etcdPatience
				if test.want == never {
					patience = 300 * time.Millisecond
				}
				err := readOnce(config, patience)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: a stranger was told %v, want %s", step, err, test.want)
				}
			}
			refused("first start")
			check(t, e.Restart(false))
			refused("restart without data")
		})
	}
}

func readOnce(config clientv3.Config, patience time.Duration) error {
	client, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = client.Get(ctx, "key")
	return err
}

func TestEtcdCalls(t *testing.T) {
	t.Parallel()
	e := Etcd(t)
	c := e.Client(t)
	before, err := e.Calls()
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := c.Watch(ctx, "key", clientv3.WithCreatedNotify())
	<-events // it is there
	for range 3 {
		_, err := c.Txn(ctx).Then(clientv3.OpPut("key", "1")).Commit()
		check(t, err)
		<-events
	}
	lease, err := c.Grant(ctx, 60)
	check(t, err)
	for range 2 {
		_, err := c.KeepAliveOnce(ctx, lease.ID)
		check(t, err)
	}
	for method, want := range map[string]EtcdCalls{
		"Txn":            {Started: 3, Received: 3, Sent: 3},
		"LeaseGrant":     {Started: 1, Received: 1, Sent: 1},
		"LeaseKeepAlive": {Started: 2, Received: 4, Sent: 2}, // each in a stream of its own, which ends
		"Watch":          {Started: 1, Received: 1, Sent: 4}, // that it is there, and three events
		"Range":          {},
	} {
		// Etcd counts when it has answered.
		await(t, fmt.Sprintf("count of %s as %+v", method, want), func() bool {
			after, err := e.Calls()
			check(t, err)
			a, b := after[method], before[method]
			return want == EtcdCalls{a.Started - b.Started, a.Received - b.Received, a.Sent - b.Sent}
		})
	}
	check(t, e.Kill())
	if calls, err := e.Calls(); err == nil {
		t.Errorf("a server that was killed tells %v", calls)
	}
}

// The probe said that the ports were free, and a moment later another etcd has one of them.
func TestEtcdClash(t *testing.T) {
	t.Parallel()
	stranger := Etcd(t)
	for name, n := range map[string]int{"alone": 1, "cluster": 3} {
		t.Run(name, func(t *testing.T) {
			c := newEtcdCluster(t, n)
			last := c.Nodes[n-1]
			picks := 0
			last.pick = pickTaken(stranger.Server, &picks)
			check(t, c.firstStart())
			if picks != 3 || last.Port() == stranger.Port() {
				t.Errorf("it runs on ports %v after %d picks, and the stranger on %v", last.ports, picks,
					stranger.ports)
			}
			put(t, c.Client(t), "key", name)
			if got := get(t, stranger.Client(t), "key"); got != "<nil>" {
				t.Errorf("the stranger has what was written: %s", got)
			}
		})
	}
}
