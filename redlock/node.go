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
	wire = rediswire.Wire
	plug = rediswire.Plug[*wire]
)

// A node is one of the servers, and the store's connections to it.
type node struct {
	index    int
	address  string
	client   rueidis.Client
	owned    bool // whether the client is ours to close
	commands plug
	pushes   plug
	failed   atomic.Pointer[failure] // the last attempt to connect that failed
	missed   atomic.Bool             // it did not count when a lock was last renewed
	judged   atomic.Bool             // it was looked at whether it will do
	unvoted  atomic.Pointer[error]   // why it could not be given its vote back when that was last tried; nil: it could

	// A node that hangs must not collect requests.
	under  atomic.Int64 // that are under way
	moving atomic.Int64 // when one was last answered, or the first of them was sent
}

// A failure is of an attempt to connect.
type failure struct {
	at  time.Time
	err error
}

const (
	redialAfter = 50 * time.Millisecond // a node that cannot be reached is not tried more often
	fewUnder    = 32                    // so many requests may always be under way at a node
	mostUnder   = 1 << 14               // and never more than this
)

var (
	errHangs = errors.New("it has not answered what it was asked before")
	errBusy  = errors.New("too many requests are under way there")
)

// wire gives a connection for commands. Ctx bounds how long one that is being made is waited for.
func (n *node) wire(ctx context.Context) (*wire, error) {
	if w, ok := n.commands.Live(); ok {
		return w, nil
	}
	if f := n.failed.Load(); f != nil && time.Since(f.at) < redialAfter {
		return nil, f.err
	}
	return n.commands.Get(ctx)
}

// stay reconnects to the node whenever the connection has ended: a request that had to wait for that would hardly be
// answered in time.
func (s *Store) stay(n *node) {
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
func (s *Store) checkLateNode(n *node, w *wire) {
	if n.judged.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(s.frame.Life(), rediswire.DialTimeout)
	defer cancel()
	if err := s.judge(ctx, n, w); err != nil {
		s.warn(n, "a node will not do that was not there when the store was opened", "why", err)
	}
}

// enter lets a request be sent, unless the node hangs: many requests are under way, and none was answered for as long as
// one may take.
func (n *node) enter(now, timeout time.Duration) error {
	under := n.under.Add(1)
	if under == 1 {
		n.moving.Store(int64(now))
		return nil
	}
	switch {
	case under > mostUnder:
		n.under.Add(-1)
		return errBusy
	case under > fewUnder && now-time.Duration(n.moving.Load()) > timeout:
		n.under.Add(-1)
		return errHangs
	}
	return nil
}

// leave notes that a request was answered or given up.
func (n *node) leave(now time.Duration, answered bool) {
	if answered {
		n.moving.Store(int64(now))
	}
	n.under.Add(-1)
}

// ask puts one request to the node, with more arguments for its script, and waits for the answer.
func (n *node) ask(ctx context.Context, r *vote.Request, args ...string) (vote.Answer, *wire, error) {
	w, err := n.wire(ctx)
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
func run(ctx context.Context, w *wire, c call) (any, error) {
	return c.script.Run(ctx, w, c.keys, c.args).Any()
}

// close ends the connections, and lets nobody make another.
func (n *node) close() {
	n.commands.Unplug()
	n.pushes.Unplug()
	if n.owned {
		n.client.Close()
	}
	n.commands.Tasks.Wait()
	n.pushes.Tasks.Wait()
}

// newNode makes a node of a client that leads to one server. It does not connect yet.
func (s *Store) newNode(index int, address string, client rueidis.Client, owned bool) *node {
	n := &node{index: index, address: address, client: client, owned: owned}
	n.commands.Connect = func() (*wire, error) {
		w, err := s.connectCommands(n)
		if err != nil {
			n.failed.Store(&failure{time.Now(), err})
		}
		return w, err
	}
	n.pushes.Connect = func() (*wire, error) {
		return rediswire.ConnectPushes(&n.pushes.Tasks, client, rueidis.PubSubHooks{
			OnMessage: func(m rueidis.PubSubMessage) { s.subscriptions.Message(index, m.Channel) },
		})
	}
	// A connection to another run of the server may look alive: nothing comes over it any more.
	made := func(w *wire) {
		for _, p := range []*plug{&n.commands, &n.pushes} {
			if other, ok := p.Current(); ok && other.Info.Get("run_id") != w.Info.Get("run_id") {
				other.End(rediswire.ErrCut)
			}
		}
	}
	n.commands.Made, n.pushes.Made = made, made
	return n
}

// connectCommands makes a connection for commands to a server that can be a node.
func (s *Store) connectCommands(n *node) (*wire, error) {
	w, err := rediswire.Connect(&n.commands.Tasks, n.client)
	if err != nil {
		return nil, err
	}
	if err = usable(&w.Info); err == nil {
		err = s.single(n, w)
	}
	if err != nil {
		w.End(err)
		return nil, fmt.Errorf("%w: %w", errUnusable, err)
	}
	preload(w)
	return w, nil
}

// preload has the server learn the scripts, so that the first lock is as fast as the next. A user may lack the
// permission.
func preload(w *wire) {
	ctx, cancel := context.WithTimeout(context.Background(), rediswire.DialTimeout)
	defer cancel()
	var loads []rueidis.Completed
	for _, op := range []vote.Op{vote.Take, vote.Raise, vote.Keep, vote.Leave} {
		loads = append(loads, w.B().ScriptLoad().Script(scripts[op].Text()).Build())
	}
	w.DoAll(ctx, loads)
}
