package etcdstore

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestExplainClosedConnection: gRPC closes a connection that does not answer its pings while calls are under way.
// What they get is said in our words, not in those of package net.
func TestExplainClosedConnection(t *testing.T) {
	err := status.Error(codes.Unavailable,
		"error reading from server: read tcp 127.0.0.1:1->127.0.0.1:2: use of closed network connection")
	why, final := explain(err)
	text := why.Error()
	if final || !strings.HasPrefix(text, "it cannot be reached: ") || strings.Contains(text, "closed network") {
		t.Errorf("%v, final %v", why, final)
	}
}
