package mysql

import (
	"context"
	"net"
)

// Through has the store connect to this address instead of the one in its URL.
func Through(address string) Option { return ThroughAny(func() string { return address }) }

// ThroughAny is Through for an address that changes.
func ThroughAny(address func() string) Option {
	return func(s *settings) {
		s.dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address())
		}
	}
}
