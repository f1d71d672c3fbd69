package memstore

import (
	"context"

	"github.com/holdfast-go/holdfast/store/frame"
)

// A Network carries the messages between a Store and its Server. Tests that need more than [Store.Disconnect] and
// [Store.SetDelay] implement one, to delay, lose or reorder messages. Without one, calls reach the server directly.
type Network interface {
	// Call delivers a request and its response: it runs do at the server, at most once. It returns nil only after do
	// has run. If it returns an error, do may have run, or may still run later.
	Call(ctx context.Context, do func()) error
	// Push delivers a notification from the server: it runs do at the client, now, later or never.
	Push(do func())
}

// send delivers a request over a network and returns the server's response. A nil network delivers it directly.
func send[T any](call *frame.Call, n Network, do func() (T, error)) (T, error) {
	if n == nil {
		return do()
	}
	// A request whose caller has given up may still run. It then writes its response here, where it is not read.
	response := new(struct {
		value T
		err   error
	})
	err := n.Call(call.Context, func() { response.value, response.err = do() })
	if err = call.Outcome(err); err != nil {
		var none T
		return none, err
	}
	return response.value, response.err
}
