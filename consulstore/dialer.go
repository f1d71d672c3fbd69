package consulstore

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"
)

// A dialer connects to one of several agents or servers: always the same one, until it can't be reached or is left.
type dialer struct {
	network   string // tcp or unix
	addresses []string
	tls       *tls.Config

	mu      sync.Mutex
	current int
	moves   int             // how often one was left, for another or for new connections
	left    context.Context // ends when the current one is left for another
	leave   context.CancelFunc
}

// dialTimeout is how long one address may take to accept a connection.
const dialTimeout = 3 * time.Second

// newDialer returns a dialer that begins with the first address.
func newDialer(network string, addresses []string, config *tls.Config) *dialer {
	d := &dialer{network: network, addresses: addresses, tls: config}
	d.left, d.leave = context.WithCancel(context.Background())
	return d
}

// dial connects. If an address can't be reached, it switches to the next one.
func (d *dialer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, _, err := d.connect(ctx)
	return conn, err
}

// dialTLS connects over TLS, and verifies the certificate for the host that was connected to.
func (d *dialer) dialTLS(ctx context.Context, _, _ string) (net.Conn, error) {
	raw, address, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	config := d.tls.Clone()
	if host, _, err := net.SplitHostPort(address); err == nil && config.ServerName == "" {
		config.ServerName = host
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close() //nolint:errcheck // it is not used
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
	return conn, nil
}

// connect connects to the current address or, if that fails, to the next ones. It returns the last error if all fail.
func (d *dialer) connect(ctx context.Context) (conn net.Conn, address string, err error) {
	for range d.addresses {
		d.mu.Lock()
		current := d.current
		d.mu.Unlock()
		address = d.addresses[current]
		conn, err = (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, d.network, address)
		if err == nil || ctx.Err() != nil {
			break
		}
		d.next(current)
	}
	return conn, address, err
}

// next switches from an address to the next one, unless that has happened already. If there is no other address, new
// connections are made to the same one, and blocking queries continue: Consul would not end queries that are cancelled,
// and would still count their connections.
func (d *dialer) next(from int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != from {
		return
	}
	d.current = (d.current + 1) % len(d.addresses)
	d.moves++
	if d.current != from {
		d.leave()
		d.left, d.leave = context.WithCancel(context.Background())
	}
}

// host returns the host by which package net/http counts connections. It changes whenever the dialer leaves an address,
// so that connections that hang there do not prevent new ones.
func (d *dialer) host() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprint("agent", d.moves)
}

// here returns the address in use, and a context that ends when it is left.
func (d *dialer) here() (current int, left context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current, d.left
}
