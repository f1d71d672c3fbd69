package postgres

import (
	"context"
	"net"
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

// Migrations has the store bring the tables to a newer format.
func Migrations(migrations ...string) Option { return func(s *settings) { s.migrations = migrations } }
