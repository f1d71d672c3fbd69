package etcdstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
)

// When the caller's time is over, that is the error, even if the time of the member that was asked was over just before.
func TestElsewhereEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), firstTry+50*time.Millisecond)
	defer cancel()
	unsure, err := (&Store{client: client}).elsewhere(ctx, func(within context.Context) error {
		<-within.Done()
		silence := within.Err()
		<-ctx.Done()
		return silence
	})
	if !unsure || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("unsure %t, error %v; want true and %v", unsure, err, context.DeadlineExceeded)
	}
}
