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

// newClient makes the client of a store that was opened by its URL. It connects to nothing yet: rueidis would begin with
// a pipeline, and we use dedicated connections only (see wire).
func (s *Store) newClient(options rueidis.ClientOption) (rueidis.Client, error) {
	options.ClientName = "holdfast"
	options.ClientSetInfo = rueidis.DisableClientSetInfo
	options.Dialer = net.Dialer{Timeout: dialTimeout, KeepAlive: pingEvery}
	options.ConnWriteTimeout = silenceWithin
	options.ReadBufferEachConn, options.WriteBufferEachConn = bufferSize, bufferSize
	options.BlockingPoolSize = mostWires
	options.PipelineMultiplex = -1
	options.DisableCache = true
	options.DisableRetry = true
	options.ForceSingleClient = true
	var ready atomic.Bool
	options.DialCtxFn = func(_ context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
		if !ready.Load() {
			return nil, errNotYet
		}
		return s.dial(address, dialer, config)
	}
	client, err := rueidis.NewClient(options)
	if client == nil {
		return nil, err
	}
	ready.Store(true)
	return client, nil
}

// dial connects, until the store is closed: then the connection ends at once, whatever it is doing.
func (s *Store) dial(address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	ctx, cancel := context.WithTimeout(s.life, dialTimeout)
	defer cancel()
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if config != nil {
		secured := tls.Client(conn, config)
		if err := secured.HandshakeContext(ctx); err != nil {
			conn.Close() //nolint:errcheck // the handshake is what went wrong
			if ctx.Err() != nil || errors.Is(err, io.EOF) {
				err = errHandshake
			}
			return nil, err
		}
		conn = secured
	}
	d := &dialled{Conn: conn}
	d.stop = context.AfterFunc(s.life, func() { conn.Close() }) //nolint:errcheck // it is over
	return d, nil
}

// A dialled connection ends with its store.
type dialled struct {
	net.Conn
	stop func() bool
}

// Close closes the connection.
func (d *dialled) Close() error {
	d.stop()
	return d.Conn.Close()
}
