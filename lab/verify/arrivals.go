package verify

import (
	"context"

	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/store"
)

// A recordedStore records when claims are sent and acknowledged.
type recordedStore struct {
	store.Store
	recorder *history.Recorder
}

// Join implements store.Store.
func (r *recordedStore) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	sent := history.Now()
	status, err := r.Store.Join(ctx, c)
	if err == nil && status.State != store.Gone && status.Ticket != 0 {
		r.recorder.Arrive(history.Arrival{
			Resource: c.Name, Kind: kindOf(c.Demand), Ticket: status.Ticket,
			Interval: history.Interval{Begin: sent, End: history.Now()},
		})
	}
	return status, err
}

func kindOf(a store.Demand) history.Kind {
	switch {
	case a.Kind == store.Semaphore:
		return history.Semaphore
	case a.Exclusive():
		return history.Exclusive
	}
	return history.Shared
}
