package zkstore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/contend"
)

func TestStampede(t *testing.T) {
	url := "zk://" + servers.ZooKeeper(t).Addr() + "?tick=200ms&ttl=30s"
	contend.Stampede(t, contend.Herd{URL: url, Alone: 500, Processes: 50})
}
