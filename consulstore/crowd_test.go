package consulstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/contend"
)

func TestStampede(t *testing.T) {
	contend.Stampede(t, contend.Herd{URL: storeURL("consul", longTTL, servers.Consul(t).Addr()), Processes: 50})
}
