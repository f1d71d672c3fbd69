package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

type (
	connection  = rediswire.Connection
	reconnector = rediswire.Reconnector[*connection]
)

// A node is one of the servers, with the connections of the store to it.
type node struct {
	index    int
	address  string
	client   rueidis.Client
	owned    bool // whether the client is ours to close
	commands reconnector
	pushes   reconnector
	failed   atomic.Pointer[failure] // the last attempt to connect that failed
	missed   atomic.Bool             // it did not count when a lock was last renewed
	checked  atomic.Bool             // its risks were checked
	admitErr atomic.Pointer[error]   // why the last attempt to give it its vote back failed; nil: it did not

	// Requests must not pile up at a node that hangs.
	inFlight     atomic.Int64 // requests in progress
	lastProgress atomic.Int64 // when the last response arrived, or the first of them was sent
}

// A failure is a failed attempt to connect.
type failure struct {
	at  time.Time
	err error
}

const (
	redialAfter    = 50 * time.Millisecond // the pause between attempts to connect to a node that cannot be reached
	alwaysInFlight = 32                    // how many requests may always be in progress at a node
	maxInFlight    = 1 << 14               // and how many at most
)

var (
	errHangs = errors.New("it has not responded to earlier requests")
	errBusy  = errors.New("too many requests are in progress there")
)

// conn returns a connection for commands. ctx bounds the wait for one that is being made.
func (n *node) conn(ctx context.Context) (*connection, error) {
	if w, ok := n.commands.Live(); ok {
		return w, nil
	}
	if f := n.failed.Load(); f != nil && time.Since(f.at) < redialAfter {
		return nil, f.err
	}
	return n.commands.Get(ctx)
}

// stayConnected reconnects to the node whenever the connection has ended: a request that had to wait for that would
// hardly have a response in time.
func (s *Store) stayConnected(n *node) {
	life := s.frame.Life()
	rediswire.Reconnect(life, func() error {
		w, err := n.commands.Get(life)
		if err != nil {
			return err
		}
		s.checkLateNode(n, w)
		select {
		case <-w.Dead():
		case <-life.Done():
		}
		return nil
	})
}

// listen stays subscribed at the node to the releases that claims wait for.
func (s *Store) listen(n *node) {
	s.subscriptions.Listen(s.frame.Life(), n.index, func(ctx context.Context) (rediskey.Conn, error) {
		return n.pushes.Get(ctx)
	})
}

// checkLateNode warns if a node that joined after Open would have been rejected.
func (s *Store) checkLateNode(n *node, w *connection) {
	if n.checked.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(s.frame.Life(), rediswire.DialTimeout)
	defer cancel()
	if err := s.checkRisks(ctx, n, w); err != nil {
		s.warn(n, "a node that was not there when the store was opened is not suitable", "why", err)
	}
}

// beginRequest returns an error if the node hangs: many requests are in progress, and no response arrived for as long
// as one may take.
func (n *node) beginRequest(now, timeout time.Duration) error {
	under := n.inFlight.Add(1)
	if under == 1 {
		n.lastProgress.Store(int64(now))
		return nil
	}
	switch {
	case under > maxInFlight:
		n.inFlight.Add(-1)
		return errBusy
	case under > alwaysInFlight && now-time.Duration(n.lastProgress.Load()) > timeout:
		n.inFlight.Add(-1)
		return errHangs
	}
	return nil
}

// endRequest ends a request, with a response or without.
func (n *node) endRequest(now time.Duration, answered bool) {
	if answered {
		n.lastProgress.Store(int64(now))
	}
	n.inFlight.Add(-1)
}

// request sends one request to the node, with more arguments for its script, and waits for the answer.
func (n *node) request(ctx context.Context, r *vote.Request, args ...string) (vote.Answer, *connection, error) {
	w, err := n.conn(ctx)
	if err != nil {
		return vote.Answer{}, nil, err
	}
	c := newCall(r, w.Info.Run())
	c.args = append(c.args, args...)
	reply, err := run(ctx, w, c)
	if err != nil {
		return vote.Answer{}, w, err
	}
	a, err := readAnswer(reply)
	return a, w, err
}

// run runs a script.
func run(ctx context.Context, w *connection, c call) (any, error) {
	return c.script.Run(ctx, w, c.keys, c.args).Any()
}

// close ends the connections, and allows no more.
func (n *node) close() {
	n.commands.Close()
	n.pushes.Close()
	if n.owned {
		n.client.Close()
	}
	n.commands.Tasks.Wait()
	n.pushes.Tasks.Wait()
}

// newNode returns a node over a client that leads to one server. It does not connect yet.
func (s *Store) newNode(index int, address string, client rueidis.Client, owned bool) *node {
	n := &node{index: index, address: address, client: client, owned: owned}
	n.commands.Connect = func() (*connection, error) {
		w, err := s.connectCommands(n)
		if err != nil {
			n.failed.Store(&failure{time.Now(), err})
		}
		return w, err
	}
	n.pushes.Connect = func() (*connection, error) {
		return rediswire.ConnectPushes(&n.pushes.Tasks, client, rueidis.PubSubHooks{
			OnMessage: func(m rueidis.PubSubMessage) { s.subscriptions.Message(index, m.Channel) },
		})
	}
	// A connection to another run of the server may seem alive, but nothing arrives over it any more.
	made := func(w *connection) {
		for _, p := range []*reconnector{&n.commands, &n.pushes} {
			if other, ok := p.Current(); ok && other.Info.Get("run_id") != w.Info.Get("run_id") {
				other.End(rediswire.ErrCut)
			}
		}
	}
	n.commands.Made, n.pushes.Made = made, made
	return n
}

// connectCommands makes a connection for commands to a server that can be a node.
func (s *Store) connectCommands(n *node) (*connection, error) {
	w, err := rediswire.Connect(&n.commands.Tasks, n.client)
	if err != nil {
		return nil, err
	}
	if err = usable(&w.Info); err == nil {
		err = s.checkDistinct(n, w)
	}
	if err != nil {
		w.End(err)
		return nil, fmt.Errorf("%w: %w", errUnusable, err)
	}
	preload(w)
	return w, nil
}

// preload loads the scripts into the server, so that the first lock is as fast as the next. A user may lack the
// permission.
func preload(w *connection) {
	ctx, cancel := context.WithTimeout(context.Background(), rediswire.DialTimeout)
	defer cancel()
	var loads []rueidis.Completed
	for _, op := range []vote.Op{vote.Take, vote.Raise, vote.Keep, vote.Leave} {
		loads = append(loads, w.B().ScriptLoad().Script(scripts[op].Text()).Build())
	}
	w.DoAll(ctx, loads)
}
