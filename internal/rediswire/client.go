package rediswire

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
	bufferSize = 1 << 16     // of a connection, each way; rueidis would take half a megabyte
	pingEvery  = time.Second // a connection that has been silent for so long is asked whether it is there
	mostWires  = 8           // two, and those that are just being closed
)

// SilenceWithin is how long a server may take to respond to a ping. After that the connection is closed.
const SilenceWithin = 3 * time.Second

// errNotYet is the error for the connection that rueidis tries to make when a client is created.
var errNotYet = errors.New("not yet")

// ErrHandshake is the error of a TLS handshake with a server that does not use TLS: Redis reads it as a command, and
// waits for its end.
var ErrHandshake = errors.New("no answer to a TLS handshake; does it speak TLS there?")

// A DialFunc connects to an address, over TLS if there is a configuration for it.
type DialFunc func(ctx context.Context, address string, config *tls.Config) (net.Conn, error)

// NewClient returns a client for one server, whose connections end with life. It does not connect yet: rueidis would
// begin with a pipeline, and this package uses dedicated connections only (see Connection). Dialing and the greeting
// may take as long as patience each.
func NewClient(life context.Context, patience time.Duration, options rueidis.ClientOption, dial DialFunc) (
	rueidis.Client, error) {
	options.ClientName = "holdfast"
	options.ClientSetInfo = rueidis.DisableClientSetInfo
	options.ConnWriteTimeout = SilenceWithin
	options.ReadBufferEachConn, options.WriteBufferEachConn = bufferSize, bufferSize
	options.BlockingPoolSize = mostWires
	options.PipelineMultiplex = -1
	options.DisableCache = true
	options.DisableRetry = true
	options.ForceSingleClient = true
	open, shut := context.WithCancel(life)
	var ready atomic.Bool
	options.Dialer = net.Dialer{Timeout: patience, KeepAlive: pingEvery} // for how long and how often rueidis asks
	own := &ownClient{open: open, shut: shut, patience: patience, options: &options}
	own.dial = func(address string, config *tls.Config) (*dialled, error) {
		ctx, cancel := context.WithTimeout(open, patience)
		defer cancel()
		conn, err := dial(ctx, address, config)
		if err != nil {
			return nil, err
		}
		d := &dialled{Conn: conn}
		d.stop = context.AfterFunc(life, func() { Cut(conn) })
		return d, nil
	}
	options.DialCtxFn = func(_ context.Context, address string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
		if !ready.Load() {
			return nil, errNotYet
		}
		return own.dial(address, config)
	}
	var err error
	if own.Client, err = rueidis.NewClient(options); own.Client == nil {
		shut()
		return nil, err
	}
	ready.Store(true)
	return own, nil
}

// An ownClient is a client whose Close aborts connection attempts at once.
type ownClient struct {
	rueidis.Client
	open     context.Context // done when it is closed
	shut     context.CancelFunc
	patience time.Duration
	options  *rueidis.ClientOption
	dial     func(address string, config *tls.Config) (*dialled, error)
}

// Close closes the client. Connections that were taken from it are closed by their users.
func (c *ownClient) Close() {
	c.shut()
	c.Client.Close()
}

// A Way has the settings for connecting to servers.
type Way struct {
	Path func(ctx context.Context, address string) (net.Conn, error) // the caller's own; nil: ours
	// for tests: returns the address to connect to instead of the given one; may be nil
	Detour func(address string) string
}

// Dial connects to an address.
func (w *Way) Dial(ctx context.Context, address string, config *tls.Config) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	if config != nil && config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	if w.Detour != nil {
		address = w.Detour(address)
	}
	var conn net.Conn
	var err error
	if w.Path != nil {
		conn, err = w.Path(ctx, address)
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
			Cut(conn)
			if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, io.EOF) {
				err = ErrHandshake
			}
			return nil, err
		}
		conn = secured
	}
	return conn, nil
}

// Cut ends a connection at once. Over TLS, Close would send an alert first, and wait for a host that has vanished.
func Cut(conn net.Conn) {
	for {
		over, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			conn.Close() //nolint:errcheck // its user notices
			return
		}
		conn = over.NetConn()
	}
}

// A dialled connection ends with the life of its client, even during a call.
type dialled struct {
	net.Conn
	stop func() bool
}

// Close closes the connection.
func (d *dialled) Close() error {
	d.stop()
	return d.Conn.Close()
}

// cut ends the connection at once: see Cut.
func (d *dialled) cut() {
	d.stop()
	Cut(d.Conn)
}
