package etcdstore_test

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Two stores that are broken on purpose. Where the faults of this package's tests meet them, the checkers must see it.
const (
	optimistScheme = "etcd+optimist"
	believerScheme = "etcd+believer"
)

// An optimist takes for granted what is not responded to soon: claims that wait are held, it thinks, if Keep fails.
type optimist struct{ store.Store }

// Keep implements store.Store.
func (o *optimist) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	soon, cancel := context.WithTimeout(ctx, sessionTTL/10)
	defer cancel()
	statuses, err := o.Store.Keep(soon, cs)
	if err == nil {
		return statuses, nil
	}
	statuses = make([]store.Status, len(cs))
	for i, c := range cs {
		statuses[i] = store.Status{State: store.Held, Ticket: c.Ticket, Until: time.Now().Add(c.TTL)}
	}
	return statuses, nil
}
