package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	bufferSize    = 1 << 16         // of a connection, each way; rueidis would take half a megabyte
	pingEvery     = time.Second     // a connection that has been silent for so long is asked whether it is there
	silenceWithin = 3 * time.Second // and given up if it does not answer for so long
	mostWires     = 8               // two, and those that are just being closed
)

// errNotYet is why rueidis does not get the connection that it wants when it is made.
var errNotYet = errors.New("not yet")

// errHandshake is what becomes of TLS where nobody speaks it: Redis takes it for a command, and waits for its end.
var errHandshake = errors.New("no answer to a TLS handshake; does it speak TLS there?")

// A dialFunc connects to an address, and speaks TLS there if there is a configuration for it.
type dialFunc func(ctx context.Context, address string, config *tls.Config) (net.Conn, error)

// newClient makes a client of this store's own for one server.
func (s *Store) newClient(options rueidis.ClientOption, dial dialFunc) (rueidis.Client, error) {
	return newClient(s.life, dialTimeout, options, dial)
}

// newClient makes a client for one server, whose connections end with life. It connects to nothing yet: rueidis would
// begin with a pipeline, and we use dedicated connections only (see wire). To connect, and to be greeted there, may take
// as long as patience each.
func newClient(life context.Context, patience time.Duration, options rueidis.ClientOption, dial dialFunc) (rueidis.Client, error) {
	options.ClientName = "holdfast"
	options.ClientSetInfo = rueidis.DisableClientSetInfo
	options.ConnWriteTimeout = silenceWithin
	options.ReadBufferEachConn, options.WriteBufferEachConn = bufferSize, bufferSize
	options.BlockingPoolSize = mostWires
	options.PipelineMultiplex = -1
	options.DisableCache = true
	options.DisableRetry = true
	options.ForceSingleClient = true
	open, shut := context.WithCancel(life)
	var ready atomic.Bool
	options.Dialer = net.Dialer{Timeout: patience, KeepAlive: pingEvery} // for how long and how often rueidis asks
	options.DialCtxFn = func(_ context.Context, address string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
		if !ready.Load() {
			return nil, errNotYet
		}
		ctx, cancel := context.WithTimeout(open, patience)
		defer cancel()
		conn, err := dial(ctx, address, config)
		if err != nil {
			return nil, err
		}
		d := &dialled{Conn: conn}
		d.stop = context.AfterFunc(life, func() { cut(conn) })
		return d, nil
	}
	client, err := rueidis.NewClient(options)
	if client == nil {
		shut()
		return nil, err
	}
	ready.Store(true)
	return &ownClient{client, shut}, nil
}

// An ownClient is a client that, when it is closed, gives up connecting at once.
type ownClient struct {
	rueidis.Client
	shut context.CancelFunc
}

// Close closes the client. Who has taken a connection from it closes that himself.
func (c *ownClient) Close() {
	c.shut()
	c.Client.Close()
}

// dial connects.
func (s *Store) dial(ctx context.Context, address string, config *tls.Config) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	if config != nil && config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	if s.detour != nil {
		address = s.detour(address)
	}
	var conn net.Conn
	var err error
	if s.path != nil {
		conn, err = s.path(ctx, address)
	} else {
		dialer := net.Dialer{KeepAlive: pingEvery}
		conn, err = dialer.DialContext(ctx, network, address)
	}
	if err != nil {
		return nil, err
	}
	if config != nil {
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			cut(conn)
			if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, io.EOF) {
				err = errHandshake
			}
			return nil, err
		}
		conn = secured
	}
	return conn, nil
}

// cut ends a connection at once. Over TLS its Close would say goodbye first, and wait for a host that has vanished.
func cut(conn net.Conn) {
	for {
		over, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			conn.Close() //nolint:errcheck // whoever uses it learns of it
			return
		}
		conn = over.NetConn()
	}
}

// A dialled connection ends with the life of its client, whatever it is doing.
type dialled struct {
	net.Conn
	stop func() bool
}

// Close closes the connection.
func (d *dialled) Close() error {
	d.stop()
	return d.Conn.Close()
}
