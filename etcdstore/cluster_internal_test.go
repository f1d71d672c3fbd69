package etcdstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
)

// When the caller's time is over, that is the error, even if the time of the member that was asked was over just
// before.
func TestElsewhereEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), firstPatience+50*time.Millisecond)
	defer cancel()
	a := (&cluster{client: client}).attempts(ctx)
	for a.next() {
		<-a.ctx.Done()
		a.err = a.ctx.Err()
		<-ctx.Done()
	}
	if !a.unsure || !errors.Is(a.err, context.DeadlineExceeded) {
		t.Errorf("unsure %t, error %v; want true and %v", a.unsure, a.err, context.DeadlineExceeded)
	}
}
