package etcdstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/contend"
)

func TestStampede(t *testing.T) {
	contend.Stampede(t, contend.Herd{URL: "etcd://" + servers.Etcd(t).Addr(), Alone: 500, Processes: 50})
}

// TestRelay passes one lease back and forth between two processes, which are killed and paused.
func TestRelay(t *testing.T) {
	url := storeURL("etcd", sessionTTL, servers.Etcd(t).Addr())
	contend.Relay(t, contend.Race{URL: url, TTL: sessionTTL, Passes: 400, Faults: 3})
}
