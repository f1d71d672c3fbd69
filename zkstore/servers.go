package zkstore

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// servers is the connection to one ZooKeeper. It implements sessionqueue.Server; session.go has the part about
// sessions.
type servers struct {
	*settings
	layout   layout
	receiver events
}

// QueueKey implements sessionqueue.Server.
func (z *servers) QueueKey(name string) string { return z.layout.path(name) }

// The operations that make a claim's node, all in one step: they check the session's epoch, make the node, and write
// another node for the sake of the result. The result has the number of the transaction, which is the new node's czxid
// and the claim's ticket. If the queue's node was written, it also has the number of nodes in the queue.
const (
	epochOp = iota
	createOp
	numberOp
)

// Make implements sessionqueue.Server.
func (z *servers) Make(
	ctx context.Context, c *client, claim *store.Claim, data string,
) (made sessionqueue.Made, unsure bool, err error) {
	line := z.layout.path(claim.Name)
	begin, err := z.layout.node(claim.ID, claim.Demand)
	if err != nil {
		return made, false, err
	}
	results, alive, err := c.multi(ctx,
		&zk.CheckVersionRequest{Path: c.path, Version: c.epoch.Load()},
		&zk.CreateRequest{
			Path: line + "/" + begin, Data: []byte(data), Acl: z.acl(), Flags: zk.FlagEphemeral | zk.FlagSequence,
		},
		&zk.SetDataRequest{Path: z.layout.number(line), Version: -1},
	)
	if err == nil {
		number := results[numberOp].Stat
		made = sessionqueue.Made{
			Key: results[createOp].String, Ticket: uint64(number.Mzxid), Alive: alive, //nolint:gosec // positive
		}
		if number.NumChildren == 1 {
			made.Queue = []sessionqueue.Entry{{Key: made.Key, ID: claim.ID, Demand: claim.Demand}}
		}
		return made, false, nil
	}
	op, refused := errors.AsType[*failedOp](err)
	switch {
	case !refused:
		return made, !errors.Is(err, sessionqueue.ErrOver), err
	case op.index == epochOp && errors.Is(err, zk.ErrNoNode):
		return made, false, sessionqueue.ErrOver
	case op.index == epochOp && errors.Is(err, zk.ErrBadVersion):
		return made, false, z.readEpoch(ctx, c)
	case op.index == createOp && errors.Is(err, zk.ErrNoNode):
		return made, false, z.makeQueue(ctx, c, line)
	case op.index == numberOp && errors.Is(err, zk.ErrNoNode): // an operator has deleted it
		err := create(ctx, c, z.layout.number(line), nil, 0, z.acl())
		return made, false, cmp.Or(err, sessionqueue.ErrAgain)
	}
	return made, false, pathError(line, err)
}

// readEpoch reads the session's epoch. It returns ErrAgain if that succeeds.
func (z *servers) readEpoch(ctx context.Context, c *client) error {
	stat, err := call(ctx, c, func(conn *zk.Conn) (*zk.Stat, error) {
		_, stat, err := conn.Exists(c.path)
		return stat, err
	})
	if err == nil {
		c.raiseEpoch(stat.Version)
		err = sessionqueue.ErrAgain
	}
	return err
}

// makeQueue makes the node of a queue, which the servers remove when it has no children any more. It returns ErrAgain
// if that succeeds.
func (z *servers) makeQueue(ctx context.Context, c *client, line string) error {
	_, err := call(ctx, c, func(conn *zk.Conn) (string, error) {
		return conn.CreateContainer(line, nil, zk.FlagContainer, z.acl())
	})
	switch {
	case errors.Is(err, zk.ErrNoNode): // a path of several components
		if err := z.makeQueue(ctx, c, path.Dir(line)); !errors.Is(err, sessionqueue.ErrAgain) {
			return err
		}
		return z.makeQueue(ctx, c, line)
	case err == nil || errors.Is(err, zk.ErrNodeExists):
		return sessionqueue.ErrAgain
	}
	return pathError(line, err)
}

// Queue implements sessionqueue.Server.
func (z *servers) Queue(ctx context.Context, c *client, name string) ([]sessionqueue.Entry, error) {
	line := z.layout.path(name)
	children, err := z.children(ctx, c, line)
	if err != nil {
		return nil, err
	}
	entries, err := parseQueue(z.layout, children)
	for i := range entries {
		entries[i].Key = line + "/" + entries[i].Key
	}
	return entries, err
}

// children returns the children of a node, or none if there is no node.
func (z *servers) children(ctx context.Context, c *client, path string) ([]string, error) {
	children, err := call(ctx, c, func(conn *zk.Conn) ([]string, error) {
		children, _, err := conn.Children(cmp.Or(path, "/"))
		return children, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return children, pathError(path, err)
}

// CatchUp implements sessionqueue.Server: the server that the client is connected to catches up with the leader.
func (z *servers) CatchUp(ctx context.Context, c *client) error {
	_, err := call(ctx, c, func(conn *zk.Conn) (string, error) { return conn.Sync(c.path) })
	return err
}

// Read implements sessionqueue.Server.
func (z *servers) Read(ctx context.Context, c *client, key string) (sessionqueue.Node, error) {
	node, err := call(ctx, c, func(conn *zk.Conn) (sessionqueue.Node, error) {
		data, stat, err := conn.Get(key)
		if err != nil {
			return sessionqueue.Node{}, err
		}
		return sessionqueue.Node{
			Ticket: uint64(stat.Czxid), Data: string(data), Version: uint64(stat.Version), //nolint:gosec // positive
			Made: time.UnixMilli(stat.Ctime),
		}, nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		return node, nil
	}
	return node, pathError(key, err)
}

// Watch implements sessionqueue.Server. A watch on the children of a claim's node, which has none, fires only when the
// node is deleted.
func (z *servers) Watch(ctx context.Context, c *client, w sessionqueue.Watch) (there bool, err error) {
	c.watched.Store(true)
	err = request(ctx, c, func(conn *zk.Conn) (err error) {
		if w.Data {
			_, _, _, err = conn.GetW(w.Key)
		} else {
			_, _, _, err = conn.ChildrenW(w.Key)
		}
		return err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil, pathError(w.Key, err)
}

// Unwatch implements sessionqueue.Server. At the server a watch stays until it fires, or the session ends.
func (z *servers) Unwatch(*client, sessionqueue.Watch) {}

// firedBy returns the watches that an event ends.
func firedBy(e zk.Event) []sessionqueue.Watch {
	children, data := sessionqueue.Watch{Key: e.Path}, sessionqueue.Watch{Key: e.Path, Data: true}
	switch e.Type {
	case zk.EventNodeDeleted, zk.EventNotWatching:
		return []sessionqueue.Watch{children, data}
	case zk.EventNodeChildrenChanged:
		return []sessionqueue.Watch{children}
	case zk.EventNodeDataChanged:
		return []sessionqueue.Watch{data}
	default:
		return nil
	}
}

// Confirm implements sessionqueue.Server. Only a majority of the servers can carry out a transaction, even one that
// writes nothing.
func (z *servers) Confirm(
	ctx context.Context, c *client, updates []sessionqueue.Update,
) (alive time.Time, refused int, err error) {
	ops, of := []any{&zk.CheckVersionRequest{Path: c.path, Version: -1}}, []int{-1}
	for i, u := range updates {
		version := int32(u.Version) //nolint:gosec // it was one
		if marker := z.Marker(u); marker != "" {
			ops, of = append(ops, &zk.CreateRequest{Path: marker, Acl: z.acl(), Flags: zk.FlagEphemeral}), append(of, i)
		}
		var op any = &zk.CheckVersionRequest{Path: u.Key, Version: version}
		if u.Write {
			op = &zk.SetDataRequest{Path: u.Key, Data: []byte(u.Data), Version: version}
			updates[i].Version++
		}
		ops, of = append(ops, op), append(of, i)
	}
	for range callTries {
		if _, alive, err = c.multi(ctx, ops...); !isCut(err) {
			break
		}
	}
	op, failed := errors.AsType[*failedOp](err)
	switch {
	case failed && op.index == 0:
		return alive, -1, sessionqueue.ErrOver
	case failed && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err,
		zk.ErrNodeExists)):
		return alive, of[op.index], nil
	case failed:
		at := of[op.index]
		return alive, at, pathError(updates[at].Key, err)
	}
	return alive, -1, err
}

// Marker implements sessionqueue.Server.
func (z *servers) Marker(u sessionqueue.Update) string {
	if u.Units != 0 {
		if child := z.layout.shrunk(u.ID, u.Units); child != "" {
			return path.Dir(u.Key) + "/" + child
		}
	}
	return ""
}

// Delete implements sessionqueue.Server.
func (z *servers) Delete(ctx context.Context, c *client, key string) error {
	err := request(ctx, c, func(conn *zk.Conn) error { return conn.Delete(key, -1) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return pathError(key, err)
}

// Void implements sessionqueue.Server: it begins another epoch of the session.
func (z *servers) Void(ctx context.Context, c *client) error {
	stat, err := call(ctx, c,
		func(conn *zk.Conn) (*zk.Stat, error) { return conn.Set(c.path, []byte(z.description), -1) })
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return sessionqueue.ErrOver
	case err == nil:
		c.raiseEpoch(stat.Version)
	}
	return err
}

// Names implements sessionqueue.Server. The node of a queue stays for a while after the last claim has left. Nodes of
// others that this user may not read are left out.
func (z *servers) Names(ctx context.Context, c *client, prefix string) (names []string, err error) {
	var mu sync.Mutex
	for level := []string{z.layout.top()}; len(level) > 0; {
		var deeper []string
		err := sessionqueue.Each(level, func(path string) error {
			children, err := z.children(ctx, c, path)
			if errors.Is(err, errNoPermission) && z.layout.foreign() && path != z.layout.top() {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			for _, child := range children {
				deeper = append(deeper, path+"/"+child)
			}
			if name, ok := z.layout.name(path); ok && strings.HasPrefix(name, prefix) && z.hasClaims(children) {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		level = slices.DeleteFunc(deeper, func(path string) bool { return !z.layout.mayHaveQueues(path) })
	}
	return names, nil
}

// hasClaims reports whether these children belong to a queue, also if they can't be parsed.
func (z *servers) hasClaims(children []string) bool {
	return slices.ContainsFunc(children, func(child string) bool {
		_, ok, err := z.layout.parse(child)
		return ok || err != nil
	})
}
