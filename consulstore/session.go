package consulstore

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/pause"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// A session is a session in Consul. It has its own key, whose modify index is the session's epoch. A claim is made only
// if the epoch is still the one in which the request was sent. So writing the key once more makes all requests in
// flight void forever (rule 8 of package store).
type session struct {
	id      string
	key     string
	epoch   atomic.Uint64
	proven  time.Time // as of when it was extended for the last time; Renew's own
	watches *watches

	life context.Context // ends when the session is ended here
	end  context.CancelFunc
}

// raiseEpoch sets the epoch to this index, unless it is later already.
func (s *session) raiseEpoch(epoch uint64) {
	for old := s.epoch.Load(); epoch > old && !s.epoch.CompareAndSwap(old, epoch); old = s.epoch.Load() {
	}
}

// Open implements frame.SessionServer: it creates a session and its key. If an address is left meanwhile, the session
// that was created there expires.
func (c *consul) Open(ctx context.Context) (in *session, ttl time.Duration, sent time.Time, err error) {
	err = c.anywhere(ctx, func(ctx context.Context) error {
		in, ttl, sent, err = c.openOnce(ctx)
		return err
	})
	return in, ttl, sent, err
}

// anywhere calls do for the address in use, and returns its error. If there are several addresses, and one does not
// respond, it calls do for the next.
func (c *consul) anywhere(ctx context.Context, do func(context.Context) error) error {
	patience := frame.AskTimeout / time.Duration(len(c.addresses)+1)
	for range len(c.addresses) - 1 {
		at, _ := c.dialer.here()
		attempt, cancel := frame.Bound(ctx, patience)
		err := do(attempt)
		silent := attempt.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !silent {
			return err
		}
		c.leave(at)
	}
	return do(ctx)
}

// openOnce creates a session at the address in use. Consul counts its ttl from when a majority has it.
func (c *consul) openOnce(ctx context.Context) (in *session, ttl time.Duration, sent time.Time, err error) {
	sent = time.Now()
	id, err := c.create(ctx, "holdfast "+c.description, c.ttl)
	if err != nil {
		return nil, 0, sent, err
	}
	in = &session{id: id, key: c.keys.sessions + id, proven: sent}
	in.life, in.end = context.WithCancel(c.frame.Life())
	in.watches = &watches{consul: c, in: in, all: map[sessionqueue.Watch]*watch{}}
	if err := c.Void(ctx, in); err != nil {
		c.End(ctx, in)
		return nil, 0, sent, err
	}
	c.frame.Go(func() { c.awaitEnd(in) })
	return in, c.ttl, sent, nil
}

// create creates a session, and the catalog node that it belongs to if there is none. The session has no checks: a
// failing check would end it while its client still believes in it. And it has no lock-delay, which is for clients that
// believe in a lock for longer than they may.
func (c *consul) create(ctx context.Context, name string, ttl time.Duration) (id string, err error) {
	none := []string{} // without Checks, they would be the health of the node
	body := map[string]any{
		"Name": name, "Node": c.node, "TTL": ttl.String(), "Behavior": "delete", "LockDelay": "0s",
		"Checks": none, "NodeChecks": none,
	}
	var created struct{ ID string }
	for range 2 {
		_, err = c.call(ctx, http.MethodPut, "/v1/session/create", nil, body, &created)
		if err == nil || !strings.Contains(err.Error(), "Missing node registration") {
			return created.ID, err
		}
		node := map[string]string{"Node": c.node, "Address": "127.0.0.1"}
		if _, err = c.call(ctx, http.MethodPut, "/v1/catalog/register", nil, node, new(bool)); err != nil {
			return "", err
		}
	}
	return "", err
}

// Void implements sessionqueue.Server: it begins another epoch of the session. A key that is written with the value
// that it has keeps its index, so the value is different each time.
func (c *consul) Void(ctx context.Context, in *session) error {
	written, err := c.txn(ctx, lockOp(in.key, in.id, sessionqueue.Format+c.description+" "+rand.Text()))
	if failed, ok := errors.AsType[*failedOp](err); ok {
		return errors.Join(sessionqueue.ErrOver, failed) // the session is not there, or its key is another's
	}
	if err == nil && len(written) != 1 {
		err = c.noRead(in.key)
	}
	if err == nil {
		in.raiseEpoch(written[0].ModifyIndex)
	}
	return err
}

// awaitEnd watches the session's key, which is deleted when Consul has ended the session.
func (c *consul) awaitEnd(in *session) {
	w := &watch{Watch: sessionqueue.Watch{Key: in.key}}
	if _, gone := c.follow(in.life, w); gone {
		in.end() // its watches are of no use any more
		c.sessions.OverAt(in)
	}
}

const (
	// patiencePart of the ttl is how long renewals at an agent may fail before the next address is tried.
	patiencePart = 6
	// electionPause is the pause after a renewal that failed.
	electionPause = 50 * time.Millisecond
)

// errDoubt is the error of a renewal that may not have extended the session.
var errDoubt = errors.New("it is not sure that the leader has renewed the session")

// Renew implements frame.SessionServer. It returns as alive when the request was sent that proves the renewal. A
// session that was not extended for its ttl has ended, whatever Consul reports: see the package documentation.
func (c *consul) Renew(ctx context.Context, in *session) (stands bool, alive time.Time, err error) {
	patience, began := c.ttl/patiencePart, time.Now()
	for !c.lapsed(in, time.Now()) {
		at, _ := c.dialer.here()
		attempt, cancel := frame.Bound(ctx, patience)
		alive, err = c.renewOnce(attempt, in)
		cancel()
		switch {
		case err == nil && c.lapsed(in, alive): // the process was stopped meanwhile
			return false, alive, nil
		case err == nil:
			in.proven = alive
			return true, alive, nil
		case errors.Is(err, sessionqueue.ErrOver):
			return false, alive, nil
		case ctx.Err() != nil || isFinal(err):
			return false, alive, err
		case time.Since(began) >= patience: // silent, or it has no leader
			c.leave(at)
			began = time.Now()
		}
		if !pause.For(ctx, electionPause) {
			return false, alive, err
		}
	}
	return false, alive, nil
}

// lapsed reports whether, by either clock, the session was not extended for its ttl before then: one clock stops while
// the machine sleeps, and the other can be set. If a renewal is sent before the ttl has passed, Consul keeps the
// session for another ttl. Later, Consul may be ending the session and still report a renewal.
func (c *consul) lapsed(in *session, then time.Time) bool {
	left := c.ttl - c.frame.Drift.Of(c.ttl)
	return then.Sub(in.proven) >= left || then.Round(0).Sub(in.proven.Round(0)) >= left
}

// renewOnce reads the session's key from a leader that a majority has confirmed, and then renews the session over the
// same connection. It returns when the read was sent. The error is ErrOver if the session has ended, and errDoubt if
// the renewal may not have extended it.
//
// A leader that was deposed and does not know it yet renews sessions too, although its successor counts their ttls from
// its own election. But a server never returns to an earlier leader than the latest that it knows. So the leader that
// renews is the one that served the read, or a later one. If that one was deposed meanwhile, its successor was elected
// after the read was sent, and counts the whole ttl from then. In both cases Consul counts from when the read was sent,
// or later.
func (c *consul) renewOnce(ctx context.Context, in *session) (alive time.Time, err error) {
	var read, renewed net.Conn
	alive = time.Now()
	_, err = c.renewals.txn(noteConnection(ctx, &read), checkSessionOp(in.key, in.id))
	if failed, ok := errors.AsType[*failedOp](err); ok {
		return alive, errors.Join(sessionqueue.ErrOver, failed)
	}
	if err != nil {
		return alive, err
	}
	var sessions []struct{ ID string }
	path := "/v1/session/renew/" + in.id
	_, err = c.renewals.call(noteConnection(ctx, &renewed), http.MethodPut, path, nil, nil, &sessions)
	if isRefusal(err, http.StatusNotFound) || err == nil && (read != renewed || len(sessions) == 0) {
		err = errDoubt // the next read tells
	}
	return alive, err
}

// noteConnection returns a context whose request stores its connection in conn.
func noteConnection(ctx context.Context, conn *net.Conn) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { *conn = got.Conn },
	})
}

// leave switches to the next address, if there are several, and to new connections.
func (c *consul) leave(from int) {
	c.dialer.next(from)
	c.closeIdle()
}

// End ends a session if Consul can be reached, also when the store is being closed.
func (c *consul) End(ctx context.Context, in *session) {
	in.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), frame.EndTimeout)
	defer cancel()
	c.destroy(ctx, in.id)
}

// destroy ends a session, and deletes its keys. If that fails, the session expires.
func (c *consul) destroy(ctx context.Context, id string) {
	_, _ = c.call(ctx, http.MethodPut, "/v1/session/destroy/"+id, nil, nil, new(bool))
}

// Done implements sessionqueue.Server. It returns nil: awaitEnd notices the end of a session.
func (c *consul) Done(*session) <-chan struct{} { return nil }
