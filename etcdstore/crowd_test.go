package etcdstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/contend"
)

func TestStampede(t *testing.T) {
	contend.Stampede(t, contend.Herd{URL: "etcd://" + servers.Etcd(t).Addr(), Alone: 500, Processes: 50})
}
