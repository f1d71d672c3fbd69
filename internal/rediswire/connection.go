package rediswire

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// A Connection is one connection to the server, shared by all calls: what is sent at the same time goes together. It
// leads to one run of the server, and does not reconnect: so what is known of it stays true. Its end is noticed also
// when nothing is called.
//
// No command is ever repeated. Scripts could be, as they know a claim by its ID, but whether to retry is the caller's
// decision.
type Connection struct {
	Info Info // what the server reported when the connection was made

	link    link
	own     *conn // the same, if it is the store's own
	builder rueidis.Builder
	once    sync.Once
	life    context.Context // done when the connection has ended
	kill    context.CancelFunc
	why     error // set before life is done
}

// A link is a connection: of the store's own, or a dedicated one of a client of rueidis'.
type link interface {
	// do sends a request and returns its replies. They are failures if ctx is done first, or the connection ends.
	do(ctx context.Context, r *request) []Reply
	// run is do for a request with one reply.
	run(ctx context.Context, r *request) Reply
	// end ends all calls that are under way, and closes the connection without waiting for that.
	end(why error)
}

// Why a connection has ended.
var (
	ErrCut      = errors.New("the connection ended")
	ErrNoAnswer = errors.New("the server does not answer; connecting again")
	ErrReplica  = errors.New("it is a replica, which can only be read; name the master")
)

// Connect makes a connection for commands, and reads from the server what it is. It may take as long as a dial. Tasks
// is told of its goroutines.
//
// If the client is one of NewClient, the connection is of the store's own, which costs less (see conn). Of a client
// that was handed in, it takes a dedicated connection.
func Connect(tasks *sync.WaitGroup, client rueidis.Client) (*Connection, error) {
	if own, ok := client.(*ownClient); ok {
		w := newConnection(client)
		if err := own.connect(tasks, w); !errors.Is(err, errNoDeadlines) {
			return w.learn(err)
		}
	}
	return ConnectPushes(tasks, client, rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
}

// ConnectPushes takes a dedicated connection from the client, for messages that the hooks are called with, and for
// commands that take long. Otherwise it is like Connect.
func ConnectPushes(tasks *sync.WaitGroup, client rueidis.Client, hooks rueidis.PubSubHooks) (*Connection, error) {
	w := newConnection(client)
	conn, _ := client.Dedicate()
	link := newDedicated(conn, w)
	w.link = link
	if _, err := w.learn(nil); err != nil {
		conn.Close()
		return nil, err
	}
	link.listen(tasks, hooks)
	return w, nil
}

func newConnection(client rueidis.Client) *Connection {
	w := &Connection{builder: client.B()}
	w.life, w.kill = context.WithCancel(context.Background())
	return w
}

// learn reads from the server what it is, unless there is an error already. It returns w or ends it.
func (w *Connection) learn(err error) (*Connection, error) {
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), DialTimeout)
		defer cancel()
		w.Info, err = readInfo(ctx, w)
	}
	if err != nil {
		w.End(err)
		return nil, err
	}
	return w, nil
}

// B builds commands.
func (w *Connection) B() rueidis.Builder { return w.builder }

// Dead is closed when the connection has ended.
func (w *Connection) Dead() <-chan struct{} { return w.life.Done() }

// Why returns why it has ended, once it has.
func (w *Connection) Why() error { return w.why }

// End ends the connection and notes why. It does not wait: the connection's own goroutine closes it, so that a call
// that fails while the store is being closed starts nothing that Close does not know of.
func (w *Connection) End(why error) {
	if why == nil {
		why = ErrCut
	}
	w.once.Do(func() {
		w.why = why
		w.kill()
	})
	if w.link != nil {
		w.link.end(w.why)
	}
}

// Do sends a command and waits for its reply, or until ctx is done.
func (w *Connection) Do(ctx context.Context, command rueidis.Completed) Reply {
	reply := w.link.run(ctx, &request{commands: []rueidis.Completed{command}})
	w.Heed(&reply)
	return reply
}

// DoAll sends several commands at once.
func (w *Connection) DoAll(ctx context.Context, commands []rueidis.Completed) []Reply {
	if len(commands) == 0 {
		return nil // a call without a reply would never be over
	}
	replies := w.link.do(ctx, &request{commands: commands})
	for i := range replies {
		w.Heed(&replies[i])
	}
	return replies
}

// Heed ends the connection after a reply that only a replica gives. The address may lead to the new master by now.
func (w *Connection) Heed(reply *Reply) {
	if (reply.kind == '-' || reply.kind == '!') && strings.Contains(reply.text, "READONLY") {
		w.End(ErrReplica)
	}
}

// itself returns w, also from a type that it is embedded in.
func (w *Connection) itself() *Connection { return w }

// Switches returns how many calls so far had to wait for another goroutine to write or to read for them. It counts only
// on connections of the store's own.
func (w *Connection) Switches() int64 {
	if w.own == nil {
		return 0
	}
	return w.own.switches.Load()
}
