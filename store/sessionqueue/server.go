package sessionqueue

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A Server is the connection of a store to its server. S identifies a session.
//
// A claim is a node, which ends with its session. The name of a node is used only once, so that a request that arrives
// late, or twice, affects no other node.
//
// Methods return ErrOver, wrapped or not, if the session has ended, and ErrUnreadable or store.ErrFormat if the data of
// a queue cannot be interpreted.
type Server[S comparable] interface {
	frame.SessionServer[S]

	// Done returns a channel that is closed when the server has ended a session. It may be nil.
	Done(in S) <-chan struct{}

	// QueueKey returns the key by which a queue is watched.
	QueueKey(name string) string

	// Make makes the node of a claim, with this data, at the end of its queue. If the error is ErrAgain, the caller
	// tries again at once. unsure reports that the node may exist, or may still be made, although there is an error.
	Make(ctx context.Context, in S, c *store.Claim, data string) (made Made, unsure bool, err error)

	// Queue returns the nodes of a queue in their order. It may lag behind the server, but not behind what this session
	// has received from it.
	Queue(ctx context.Context, in S, name string) ([]Entry, error)

	// CatchUp ensures that later reads are no older than this call.
	CatchUp(ctx context.Context, in S) error

	// Read returns the data of a node. It returns the zero Node if there is none.
	Read(ctx context.Context, in S, key string) (Node, error)

	// Watch sets a watch, which calls [Store.Changed] once. It reports false, and sets nothing, if the node does not
	// exist.
	Watch(ctx context.Context, in S, w Watch) (there bool, err error)

	// Unwatch removes a watch that is not needed any more. It does not block. A server whose watches cost nothing may
	// keep it.
	Unwatch(in S, w Watch)

	// Confirm verifies in one step that these nodes exist as described, writes their new data, and sets the Version of
	// those that it has written. Its result is no older than the call. alive is the time from which the session was
	// extended, or zero if it was not. refused is the index of a node that does not exist or differs; then nothing was
	// written. Otherwise it is -1. With an error, refused is the index of a node that can't be confirmed for another
	// reason, or -1 if the error concerns all.
	Confirm(ctx context.Context, in S, updates []Update) (alive time.Time, refused int, err error)

	// Marker returns the key of the node that Confirm makes beside the node of a claim whose units were reduced, and
	// which is to be deleted with it. It is empty if there is none.
	Marker(u Update) string

	// Delete deletes a node. It returns nil if there is none.
	Delete(ctx context.Context, in S, key string) error

	// Void ensures that no earlier request of Make takes effect any more.
	Void(ctx context.Context, in S) error

	// Names returns the names that begin with prefix and have a queue.
	Names(ctx context.Context, in S, prefix string) ([]string, error)
}

// Errors that a Server returns beside its own.
var (
	ErrOver       = errors.New("the session is over")
	ErrAgain      = errors.New("its session or its line changes too fast")
	ErrUnreadable = errors.New("was made by no version of holdfast")
)

// Made is a node that was just made.
type Made struct {
	Key     string
	Ticket  uint64
	Version uint64    // of what it says
	Alive   time.Time // as of when that has extended the session; zero: it has not
	Queue   []Entry   // the queue, as of when the node was made; nil: not known
}

// An Entry is a node of a queue.
type Entry struct {
	Key    string
	ID     store.ID // zero: another program's
	Demand store.Demand
}

// A Node is the content of a node.
type Node struct {
	ID      store.ID // the claim's; zero: it is the one that the node was made with
	Ticket  uint64
	Data    string
	Version uint64
	Made    time.Time // zero: not known
	Own     bool      // it is a node of the session that reads it; only a Mover sets it
	Lease   string    // the session of its own that a detached claim has; otherwise empty
}

// A Watch watches for the deletion of a node, with Data also for changes of its data; or it watches the nodes of a
// queue.
type Watch struct {
	Key  string
	Data bool
}

// An Update is the new data of a claim's node.
type Update struct {
	Name    string
	ID      store.ID
	Key     string
	Demand  store.Demand // the claim's demand from now on
	Version uint64       // of what it says so far
	Write   bool         // it says something new
	Data    string
	Units   int32 // fewer than so far; 0: as many
}
