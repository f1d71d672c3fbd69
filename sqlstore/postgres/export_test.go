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
