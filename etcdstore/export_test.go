package etcdstore

import (
	"context"
	"time"

	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/holdfast-go/holdfast/store"
)

// OpenThrough opens a store as a URL with these endpoints would, by other ways to them, and with these options of its
// connections.
func OpenThrough(ctx context.Context, endpoints, ways []string, prefix string, ttl time.Duration, options ...grpc.DialOption) (*Store, error) {
	return connect(ctx, called(endpoints), clientv3.Config{Endpoints: ways, DialOptions: options}, settings{prefix: prefix, ttl: ttl})
}

// LineKey is the beginning of the keys of a name's line, for a store without prefix.
func LineKey(name string) string {
	k := newKeySpace("")
	return k.line(name)
}

// IDIn is the ID of the claim whose key has this value.
func IDIn(value []byte) (store.ID, error) {
	r, err := decode(value)
	return r.ID, err
}
