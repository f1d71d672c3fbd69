package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// dialZooKeeper makes a client of these servers, which is closed with the test.
func dialZooKeeper(t *testing.T, tlsConfig *tls.Config, addrs ...string) *zk.Conn {
	t.Helper()
	dial := func(network, addr string, timeout time.Duration) (net.Conn, error) {
		dialer := &net.Dialer{Timeout: timeout}
		if tlsConfig != nil {
			return tls.DialWithDialer(dialer, network, addr, tlsConfig)
		}
		return dialer.Dial(network, addr)
	}
	c, _, err := zk.Connect(addrs, 30*time.Second, zk.WithDialer(dial), zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	check(t, err)
	t.Cleanup(c.Close)
	return c
}

// quiet is a logger of tests that end servers on purpose.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// setZnode writes a znode, which may be new, and must succeed. A server that has just come back is tried again.
func setZnode(t *testing.T, c *zk.Conn, path, value string) {
	t.Helper()
	check(t, poll(func(context.Context) error {
		_, err := c.Set(path, []byte(value), -1)
		if errors.Is(err, zk.ErrNoNode) {
			_, err = c.Create(path, []byte(value), 0, zk.WorldACL(zk.PermAll))
		}
		return err
	}))
}

// znode reads a znode, and must succeed. One that is not there is <nil>.
func znode(t *testing.T, c *zk.Conn, path string) string {
	t.Helper()
	value, err := pollFor(func() (string, error) {
		value, _, err := c.Get(path)
		if errors.Is(err, zk.ErrNoNode) {
			return "<nil>", nil
		}
		return string(value), err
	})
	check(t, err)
	return value
}

func TestZooKeeperRestart(t *testing.T) {
	t.Parallel()
	z := ZooKeeper(t)
	// A session ends with the data, so each step has its own.
	testRestart(t, z.Server,
		func(value string) { setZnode(t, dialZooKeeper(t, nil, z.Addr()), "/key", value) },
		func() string { return znode(t, dialZooKeeper(t, nil, z.Addr()), "/key") })
	if mode, err := z.Mode(t.Context()); mode != "standalone" {
		t.Errorf("its mode is %q: %v", mode, err)
	}
}

func TestZooKeeperPause(t *testing.T) {
	t.Parallel()
	z := ZooKeeper(t)
	c := dialZooKeeper(t, nil, z.Addr())
	setZnode(t, c, "/key", "1")
	check(t, z.Pause())
	answered := make(chan error, 1)
	go func() {
		_, _, err := c.Get("/key")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a paused server answered: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	check(t, z.Continue())
	check(t, <-answered)
}

func TestZooKeeperOptions(t *testing.T) {
	t.Parallel()
	certificates := NewCertificates(t)
	for _, test := range []struct {
		name    string
		options []Option
		want    string // in what it says of its configuration
	}{
		{"defaults", nil, "\ntickTime=200\nmaxClientCnxns=0\nminSessionTimeout=400\nmaxSessionTimeout=600000\n"},
		{"tick", []Option{Tick(time.Second), Args("maxClientCnxns=7")}, "\ntickTime=1000\nmaxClientCnxns=7\n"},
		{"TLS", []Option{TLS(certificates)}, "secureClientPort="},
	} {
		t.Run(test.name, func(t *testing.T) {
			z := ZooKeeper(t, test.options...)
			var config *tls.Config
			if z.ensemble.set.certificates != nil {
				config = certificates.Client
			}
			setZnode(t, dialZooKeeper(t, config, z.Addr()), "/key", "1")
			said, err := z.Command(t.Context(), "conf")
			if err != nil || !strings.Contains(said, test.want) {
				t.Errorf("it does not say %q: %v\n%s", test.want, err, said)
			}
		})
	}
}

// What the options forbid must be forbidden, and no more than that.
func TestZooKeeperRefuses(t *testing.T) {
	t.Parallel()
	certificates := NewCertificates(t)
	anonymous := &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    certificates.Client.RootCAs,
		ServerName: "127.0.0.1",
	}
	z := ZooKeeper(t, TLS(certificates), Args("ssl.clientAuth=need"))
	setZnode(t, dialZooKeeper(t, certificates.Client, z.Addr()), "/key", "1")
	for name, stranger := range map[string]*tls.Config{"no TLS": nil, "no certificate": anonymous} {
		c := dialZooKeeper(t, stranger, z.Addr())
		answered := make(chan error, 1)
		go func() {
			_, _, err := c.Get("/")
			answered <- err
		}()
		select {
		case err := <-answered:
			if err == nil {
				t.Errorf("%s: a stranger was served", name)
			}
		case <-time.After(300 * time.Millisecond): // it is tried again and again
		}
		c.Close()
	}
}

// The probe said that the ports were free, and a moment later another process has one of them.
func TestZooKeeperClash(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		n, port int
	}{
		{"alone", 1, clientPort},
		{"quorum port", 2, quorumPort},
		{"election port", 2, electionPort},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newZooKeeperEnsemble(t, test.n, Cuttable())
			last := c.Nodes[test.n-1] // it becomes the leader
			picks := 0
			last.pick = func(n int) ([]int, error) {
				ports, err := pickPorts(n)
				if picks++; picks == 1 && err == nil {
					stranger, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[test.port])))
					check(t, err)
					t.Cleanup(func() { stranger.Close() })
				}
				return ports, err
			}
			check(t, c.firstStart())
			if picks != 2 {
				t.Errorf("it runs after %d picks of ports", picks)
			}
		})
	}
}

// Another ZooKeeper that has the port is not taken for the one that was started.
func TestZooKeeperStranger(t *testing.T) {
	t.Parallel()
	stranger, z := ZooKeeper(t), newZooKeeperEnsemble(t, 1).Nodes[0]
	z.ports = stranger.ports
	if err := z.checkReady(); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("a stranger was taken for the server: %v", err)
	}
}
