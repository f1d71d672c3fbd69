package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

type (
	reconnector = rediswire.Reconnector[*connection]
	script      = rediswire.Script
	execution   = rediswire.Execution
)

// A node is a server that keeps locks, and the store's connections to it.
type node struct {
	address  string // of a node of a cluster
	client   rueidis.Client
	owned    bool // whether the client is ours to close
	commands reconnector
	pushes   reconnector
	acked    reconnector  // for what replicas must acknowledge
	grants   *reconnector // for what may grant or renew: acked, or commands if no replica has to acknowledge

	inspected atomic.Bool // in a cluster: it was looked at before locks were first kept there
}

// newNode returns a node for a client that leads to one server. It does not connect yet.
func (b *base) newNode(address string, client rueidis.Client, owned bool) *node {
	n := &node{address: address, client: client, owned: owned}
	n.commands.Connect = func() (*connection, error) { return b.connect(n, &n.commands) }
	n.acked.Connect = func() (*connection, error) {
		w, err := b.connect(n, &n.acked)
		if err == nil {
			w.newRounds(b.replicaSettings, &n.acked.Tasks)
		}
		return w, err
	}
	n.pushes.Connect = func() (*connection, error) { return b.connectPushes(n) }
	n.grants = &n.commands
	if b.replicas > 0 {
		n.grants = &n.acked
	}
	for _, p := range n.reconnectors() {
		p.Made = func(w *connection) { n.keepTo(w.run, rediswire.ErrCut) }
	}
	return n
}

// reconnectors returns the holders of the node's three connections.
func (n *node) reconnectors() []*reconnector { return []*reconnector{&n.commands, &n.pushes, &n.acked} }

// connect returns the connection for requests that may grant or renew, or the one for all other requests.
func (n *node) connect(ctx context.Context, grants bool) (*connection, error) {
	if grants {
		return n.grants.Get(ctx)
	}
	return n.commands.Get(ctx)
}

// keepTo ends all connections to another run of the server, or to another server. Such a connection may be alive, but
// no push arrives over it any more, and what is written over it is lost.
func (n *node) keepTo(run string, why error) {
	for _, p := range n.reconnectors() {
		if w, ok := p.Current(); ok && w.run != run {
			w.End(why)
		}
	}
}

// close ends the connections, and prevents new ones. It waits for connection attempts: if the store owns the client,
// closing that aborts them; otherwise they take as long as the client lets them.
func (n *node) close() {
	for _, p := range n.reconnectors() {
		p.Close()
	}
	if n.owned {
		n.client.Close()
	}
	for _, p := range n.reconnectors() {
		p.Tasks.Wait()
	}
}

// A connection is one connection to a server, with the properties of that server.
type connection struct {
	*rediswire.Connection
	run    string  // which run of the server it leads to, as the scripts want it: "1 RUN "
	visits *visits // to the slots of a node of a cluster; otherwise nil
	topics *topics // of a connection for pushes
	rounds *rounds // for what replicas must acknowledge; otherwise nil
}

// newConnection returns a new connection with the properties of its server.
func newConnection(w *rediswire.Connection, err error) (*connection, error) {
	if err != nil {
		return nil, err
	}
	return &connection{Connection: w, run: runText(&w.Info)}, nil
}

// serverMillis returns an estimate of the server's time, in milliseconds since 1970. It is for human readers only.
func (w *connection) serverMillis() int64 { return w.Info.Now().UnixMilli() }

// connect makes a connection to the node over which scripts can be run.
func (b *base) connect(n *node, p *reconnector) (*connection, error) {
	made := func() (*rediswire.Connection, error) { return rediswire.Connect(&p.Tasks, n.client) }
	if p == &n.acked { // a WAIT may take longer than a server may be silent otherwise
		made = func() (*rediswire.Connection, error) {
			return rediswire.ConnectPushes(&p.Tasks, n.client,
				rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
		}
	}
	w, err := newConnection(made())
	if err != nil {
		return nil, err
	}
	server := newServer(&w.Info)
	if err = usable(&w.Info, b.inCluster); err != nil {
		err = fmt.Errorf("%w: %w", errUnusable, err)
	} else {
		err = b.topology.prepare(n, w, server)
	}
	if err != nil {
		w.End(err)
		return nil, err
	}
	b.met.Do(func() { b.server = *server }) // before anybody else can look
	return w, nil
}

// connectPushes makes a connection for pushes alone, so that no long response delays them.
func (b *base) connectPushes(n *node) (*connection, error) {
	var topics topics
	w, err := newConnection(rediswire.ConnectPushes(&n.pushes.Tasks, n.client, rueidis.PubSubHooks{
		OnMessage: b.receive,
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if topics.note(s) {
				b.frame.Push(store.Everyone, store.Status{}) // the slot is kept elsewhere now
			}
		},
	}))
	if err != nil {
		return nil, err
	}
	w.topics = &topics
	if err := b.topology.listen(n, w); err != nil {
		w.End(err)
		return nil, err
	}
	return w, nil
}

// probe returns an error if the server does not support what the scripts need. It runs before anything is written
// there. Servers that resemble Redis are judged by their behaviour, and a user without the permission to publish gets
// the error before a claim waits. In a cluster there is no topic to probe, so that error comes when a claim first
// waits.
func (b *base) probe(ctx context.Context, w *connection, at *slotKeys, topic string) error {
	undeclared := at.run
	if b.plain != nil { // its scripts name all of their keys
		undeclared = ""
	}
	conn, _ := w.forTry()
	reply := probeScript.Run(ctx, conn, []string{at.mark}, []string{undeclared, topic})
	said, err := reply.Text()
	if e, ok := rediswire.IsRefusal(err); ok && strings.HasPrefix(e.Error(), "unknown command") {
		why, _ := rediswire.Explain(err)
		return fmt.Errorf("%w: it runs no scripts: %w", errUnusable, why)
	}
	if err == nil && said != "ok" {
		err = fmt.Errorf("%w: %q", rediswire.ErrShape, said)
	}
	return err
}

// arrive raises the mark unless this run of the server has raised it already. It is called before the first Join over a
// connection (in a cluster: for each slot). That is enough, since no connection outlives the server's run. The startup
// delay begins here too, and not only with the first request for a lock.
func (b *base) arrive(ctx context.Context, w *connection, at *slotKeys) error {
	conn, _ := w.forTry()
	reply := keepScript.Run(ctx, conn, []string{at.mark, at.run}, []string{w.run, millis(b.guard)})
	said, err := reply.Texts()
	switch {
	case err != nil:
		return err
	case len(said) != 1:
		return fmt.Errorf("%w: %q", rediswire.ErrShape, said)
	case said[0] != "ok":
		return b.refused(said[0], at.run)
	}
	return nil
}

// A Server has the properties that a server reported when the store was opened.
type Server struct {
	Version   string        // of Redis, as in 7.0.15, or with the name of another, as in Valkey 8.0.1
	RunID     string        // another one after every start
	Role      string        // master, or slave for a replica
	Mode      string        // standalone, sentinel or cluster
	Eviction  string        // what it does when its memory is full, as in noeviction
	MaxMemory int64         // in bytes; 0: no limit
	Ahead     time.Duration // how far its clock is ahead of this machine's, give or take the time of a message

	evicts bool // whether it may throw locks away
}

// newServer returns the properties of a server from its response to INFO.
func newServer(info *rediswire.Info) *Server {
	s := &Server{
		Version: info.Version(), RunID: info.Get("run_id"), Role: info.Get("role"), Mode: info.Mode(),
		Eviction: info.Get("maxmemory_policy"), Ahead: info.Ahead(), evicts: info.Evicts(),
	}
	s.MaxMemory, _ = strconv.ParseInt(info.Get("maxmemory"), 10, 64) // 0: nothing is known
	return s
}

// runText returns the server's run as the scripts write it, with the version of the format.
func runText(info *rediswire.Info) string { return "1 " + info.Run() + " " }

// usable returns an error if the server cannot keep locks at all, and nil otherwise.
func usable(info *rediswire.Info, inCluster bool) error {
	mode, role := info.Mode(), info.Get("role")
	lacks := info.Lacks()
	switch {
	case inCluster && mode != "cluster":
		return errors.New("it is no node of a cluster; name it with redis://")
	case inCluster && info.OlderThan(7, 0):
		return fmt.Errorf("it is %s, and in a cluster Redis 7.0 is the oldest that will do", info)
	case mode == "sentinel":
		return errors.New("it is a Sentinel, which keeps no data; name the master")
	case mode == "cluster" && !inCluster:
		return rediswire.ErrCluster
	case lacks != nil:
		return lacks
	case role != "" && role != "master":
		return rediswire.ErrReplica
	case info.OlderThan(6, 2):
		return fmt.Errorf("it is %s, and Redis 6.2 is the oldest that will do", info)
	}
	return nil
}
