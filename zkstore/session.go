package zkstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// patiencePart of the ttl is how long one server may take to carry out a renewal before another is tried.
const patiencePart = 6

// Open implements frame.SessionServer: it begins a session, and makes its node, whose version is the session's epoch. A
// claim is made only if the epoch is still the one in which the request was sent. So writing the node once more makes
// all requests in flight void forever (rule 8 of package store).
func (z *servers) Open(ctx context.Context) (c *client, ttl time.Duration, sent time.Time, err error) {
	sent = time.Now() // the leader counts from when it makes the session
	c, err = connect(ctx, z.settings, z.receiver)
	if err != nil {
		return nil, 0, sent, err
	}
	if ttl, err = z.start(ctx, c); err != nil {
		c.close()
		return nil, 0, sent, err
	}
	return c, ttl, sent, nil
}

func (z *servers) start(ctx context.Context, c *client) (ttl time.Duration, err error) {
	c.mu.Lock()
	ttl = c.dialed.granted()
	c.mu.Unlock()
	if err := z.checkTTL(ttl); err != nil {
		return 0, err
	}
	if _, err := c.logIn(ctx, 0); err != nil {
		return 0, err
	}
	if z.chroot != "" {
		if there, err := exists(ctx, c, z.chroot); err != nil {
			return 0, pathError(z.chroot, err)
		} else if !there {
			return 0, final(fmt.Errorf("there is no node %s: make it, or leave the path out of the URL",
				store.Quote(z.chroot)))
		}
	}
	for _, node := range z.tree() {
		there, err := exists(ctx, c, node.path)
		if err == nil && !there {
			err = create(ctx, c, node.path, nil, 0, node.acl)
		}
		if err != nil {
			return 0, pathError(node.path, err)
		}
	}
	c.path = fmt.Sprintf("%s/%016x", z.sessions(), uint64(c.conn.SessionID())) //nolint:gosec // for a name
	if err := create(ctx, c, c.path, []byte(z.description), zk.FlagEphemeral, z.acl()); err != nil {
		return 0, err
	}
	return ttl, z.checkVersion(ctx, c)
}

// exists reports whether a node exists.
func exists(ctx context.Context, c *client, path string) (bool, error) {
	return call(ctx, c, func(conn *zk.Conn) (bool, error) {
		there, _, err := conn.Exists(path)
		return there, err
	})
}

// create makes a node. One that is there already stays as it is: the response to its creation may have been lost.
func create(ctx context.Context, c *client, path string, data []byte, flags int32, acl []zk.ACL) error {
	_, err := call(ctx, c, func(conn *zk.Conn) (string, error) { return conn.Create(path, data, flags, acl) })
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return pathError(path, err)
}

// read returns the data of a node.
func read(ctx context.Context, c *client, path string) ([]byte, error) {
	return call(ctx, c, func(conn *zk.Conn) ([]byte, error) {
		data, _, err := conn.Get(path)
		return data, err
	})
}

// checkVersion returns an error if the server has no container nodes: it would not remove the nodes of queues.
func (z *servers) checkVersion(ctx context.Context, c *client) error {
	_, err := call(ctx, c, func(conn *zk.Conn) (string, error) {
		return conn.CreateContainer(z.tenant(), nil, zk.FlagContainer, z.acl()) // it is there
	})
	switch {
	case err == nil || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoAuth):
		return nil
	case isCut(err) || errors.Is(err, sessionqueue.ErrOver) || ctx.Err() != nil:
		return err
	}
	return final(fmt.Errorf("the server is too old: it must be ZooKeeper 3.5 or later (%w)", err))
}

// checkTTL returns an error unless the server has granted the timeout that was requested. If it grants another, that is
// the shortest or the longest that it allows.
func (z *servers) checkTTL(granted time.Duration) error {
	limit := "least"
	switch {
	case granted == z.ttl:
		return nil
	case granted < z.ttl:
		limit = "most"
	}
	return final(fmt.Errorf("a session of %v was asked for, and the %s that the server allows is %v: set ttl, or the "+
		"server's minSessionTimeout and maxSessionTimeout", z.ttl, limit, granted))
}

// Renew implements frame.SessionServer: it extends a session by a request that only a majority can carry out. If a
// server does not carry it out in time, the client switches to another: the server may have lost the leader, and still
// respond to pings and reads.
func (z *servers) Renew(ctx context.Context, c *client) (stands bool, alive time.Time, err error) {
	for {
		attempt, cancel := frame.Bound(ctx, z.ttl/patiencePart)
		_, alive, err = c.multi(attempt, &zk.CheckVersionRequest{Path: c.path, Version: -1})
		silent := attempt.Err() != nil
		cancel()
		switch {
		case err == nil:
			return true, alive, nil
		case errors.Is(err, sessionqueue.ErrOver) || errors.Is(err, zk.ErrNoNode):
			return false, alive, nil
		case c.downFor() > z.ttl:
			// The session is not valid any more, and the servers may never accept it again, for example because they
			// lost their data.
			return false, alive, nil
		case ctx.Err() != nil || !silent && !isCut(err):
			return false, alive, err
		case silent:
			c.cut()
		}
	}
}

// isCut reports whether a request failed with its connection, so that it may have been carried out, and another server
// may carry it out.
func isCut(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer) ||
		errors.Is(err, zk.ErrSessionMoved)
}

// End ends a session.
func (z *servers) End(_ context.Context, c *client) { c.close() }

// Done implements sessionqueue.Server.
func (z *servers) Done(c *client) <-chan struct{} { return c.life.Done() }
