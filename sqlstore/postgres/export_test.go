package postgres

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
)

// Through has the store connect to this address instead of the one in its URL.
func Through(address string) Option { return Toward(func() string { return address }) }

// Toward has each new connection go to the address of the moment instead of the one in the store's URL.
func Toward(address func() string) Option {
	return func(s *settings) {
		s.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address())
		}
	}
}

// Over has the store use what wrap makes of its connections.
func Over(wrap func(net.Conn) net.Conn) Option {
	return func(s *settings) {
		s.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return wrap(conn), nil
		}
	}
}

// ThroughWithoutCancel is Through for PgBouncer 1.18, which can crash when the client of a request to cancel goes away
// (pgbouncer issue 801). Such requests are not sent.
func ThroughWithoutCancel(address string) Option {
	return func(s *settings) {
		s.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return withoutCancel{conn}, err
		}
	}
}

// Migrations has the store bring the tables to a newer format, by steps that follow those that it has.
func Migrations(next ...string) Option {
	return func(s *settings) { s.migrations = append(slices.Clone(s.migrations), next...) }
}

// Trusting has the store open without a check of the user's privileges.
func Trusting() Option { return func(s *settings) { s.trusting = true } }

type withoutCancel struct{ net.Conn }

func (c withoutCancel) Write(p []byte) (int, error) {
	const length, code = 16, 80877102
	if len(p) == length && binary.BigEndian.Uint32(p) == length && binary.BigEndian.Uint32(p[4:]) == code {
		return len(p), c.Close()
	}
	return c.Conn.Write(p)
}
