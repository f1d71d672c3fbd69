package sessionqueue

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A Server is what a store knows of its server. S is what it knows a session by.
//
// A claim is a node, which ends with its session. A node has a name that was never used before and never is again, so
// that a request which lands late, or twice, hits no other.
//
// Methods return ErrOver, wrapped or not, if the session is over, and ErrUnreadable or store.ErrFormat if a queue can't
// be judged because of what it says.
type Server[S comparable] interface {
	frame.SessionServer[S]

	// Done returns a channel that is closed when the server has ended a session. It may be nil.
	Done(in S) <-chan struct{}

	// QueueKey returns what a queue is watched by.
	QueueKey(name string) string

	// Make makes the node of a claim, with this data, at the end of its queue. The error is ErrAgain if that is to be
	// tried again at once. unsure reports that the node may have been made, or may still be, although there is an
	// error.
	Make(ctx context.Context, in S, c *store.Claim, data string) (made Made, unsure bool, err error)

	// Queue returns the nodes of a queue in their order. It may be behind what the server knows, but not behind what it
	// has told this session.
	Queue(ctx context.Context, in S, name string) ([]Entry, error)

	// CatchUp has what is read afterwards be no older than the call.
	CatchUp(ctx context.Context, in S) error

	// Read returns what a node says. The node is zero if there is none.
	Read(ctx context.Context, in S, key string) (Node, error)

	// Watch has the store notified once by [Store.Changed]. It reports false, and sets nothing, if there is no such
	// node.
	Watch(ctx context.Context, in S, w Watch) (there bool, err error)

	// Unwatch says that the store need not be notified of a watch any more. It does not block. A server whose watches
	// cost nothing may keep it.
	Unwatch(in S, w Watch)

	// Confirm demands in one step that these nodes are there as described, writes what is new of them, and sets the
	// Version of those. What it finds is no older than its call. It returns as of when that has extended the session,
	// or the zero time if it has not. refused is the index of a node that is not there or not so; then nothing was
	// done. It is -1 otherwise. With an error, refused is the index of a node that can't be confirmed for another
	// reason, or -1 if that concerns all.
	Confirm(ctx context.Context, in S, updates []Update) (alive time.Time, refused int, err error)

	// Marker returns the key of a node that Confirm makes beside that of a claim which has fewer units from now on, and
	// which is to be deleted with it. It is empty if there is none.
	Marker(u Update) string

	// Delete deletes a node. It is not an error if there is none.
	Delete(ctx context.Context, in S, key string) error

	// Void has nothing land any more that Make has sent before.
	Void(ctx context.Context, in S) error

	// Names returns the names that begin with prefix and have a queue.
	Names(ctx context.Context, in S, prefix string) ([]string, error)
}

// What a Server returns beside its own errors.
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

// A Node is what a node says.
type Node struct {
	Ticket  uint64
	Data    string
	Version uint64
	Made    time.Time // zero: not known
}

// A Watch is on a node's deletion, and with Data also on what it says; or on the nodes of a queue.
type Watch struct {
	Key  string
	Data bool
}

// An Update is what the node of a claim is to say from now on.
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
