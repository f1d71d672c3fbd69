package consulstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/contend"
)

func TestStampede(t *testing.T) {
	url := storeURL("consul", longTTL, servers.Consul(t).Addr())
	contend.Stampede(t, contend.Herd{URL: url, Alone: 100, Processes: 30})
}
