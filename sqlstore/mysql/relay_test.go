package mysql_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/contend"
)

// TestRelay passes one lease back and forth between two processes, which are killed and paused.
func TestRelay(t *testing.T) {
	url := "mysql://root@" + newHarness(t).server.Addr() + "/" + database + "?ttl=1s"
	contend.Relay(t, contend.Race{URL: url, TTL: crowdTTL, Passes: 400, Faults: 3})
}
