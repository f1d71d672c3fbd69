package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// A Wire lies between a Store and its Server. Tests put one there to delay, lose or cut what passes. Without
// one, calls go straight through.
type Wire interface {
	// Call delivers a request and its answer: it runs do at the server, at most once. If it returns an error,
	// do may have run, or run later. It returns nil only when do has run.
	Call(ctx context.Context, do func()) error
	// Push delivers a push: it runs do at the client, now, later or never.
	Push(do func())
}

// askTimeout bounds the calls that no ttl bounds.
const askTimeout = 10 * time.Second

// overWire sends a request to the server, if there is a wire over it, and brings the answer back. Without a
// deadline it gives up after limit.
func overWire[T any](ctx context.Context, st *Store, limit time.Duration, do func() (T, error)) (T, error) {
	if st.wire == nil {
		return do()
	}
	bounded := ctx
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	// A request whose caller has given up may still run, and writes its answer here, where nobody looks.
	answer := new(struct {
		value T
		err   error
	})
	err := st.wire.Call(bounded, func() { answer.value, answer.err = do() })
	if err != nil {
		st.failed.Store(true)
		var none T
		if ctx.Err() != nil {
			return none, ctx.Err()
		}
		if bounded.Err() != nil {
			err = fmt.Errorf("no answer in %v", limit)
		}
		return none, &store.Fault{Store: st.Abilities().Store, Err: err}
	}
	if st.failed.CompareAndSwap(true, false) {
		st.deliver(store.Everyone, store.Standing{})
	}
	return answer.value, answer.err
}
