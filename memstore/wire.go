package memstore

import (
	"context"

	"github.com/holdfast-go/holdfast/store/frame"
)

// A Wire lies between a Store and its Server. Tests put one there to delay, lose or cut what passes. Without
// one, calls go straight through.
type Network interface {
	// Call delivers a request and its answer: it runs do at the server, at most once. If it returns an error,
	// do may have run, or run later. It returns nil only when do has run.
	Call(ctx context.Context, do func()) error
	// Push delivers a push: it runs do at the client, now, later or never.
	Push(do func())
}

// overWire sends a request to the server, if there is a wire over it, and brings the response back.
func overWire[T any](call *frame.Call, w Network, do func() (T, error)) (T, error) {
	if w == nil {
		return do()
	}
	// A request whose caller has given up may still run, and writes its response here, where nobody looks.
	response := new(struct {
		value T
		err   error
	})
	err := w.Call(call.Context, func() { response.value, response.err = do() })
	if err = call.Outcome(err); err != nil {
		var none T
		return none, err
	}
	return response.value, response.err
}
