package zkstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/pause"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// A client is one session in ZooKeeper. It wraps the library's client, which must not outlive its session: by itself,
// the library begins another session when the first has expired, and sends the requests left in its queue under that.
type client struct {
	conn     *zk.Conn
	settings *settings
	logins   logins
	lag      time.Duration
	ended    <-chan zk.Event // is closed when the library has ended its work

	path  string       // of the session's node
	epoch atomic.Int32 // the version of that node

	watched atomic.Bool // a watch was set, and may still be

	life context.Context // ends with the session
	end  context.CancelFunc

	mu       sync.Mutex
	hosts    []string
	next     int           // of hosts
	attempts int           // to connect, since the last that succeeded
	failures int           // to connect, since the beginning
	dialed   *link         // the last one
	link     *link         // with a session; nil: none
	down     time.Time     // when the last link was lost
	changed  chan struct{} // is closed when link changes
	failure  error         // of the last attempt
	expired  bool
}

// The pauses between attempts to connect when no server accepts the session.
const (
	leastPause = 20 * time.Millisecond
	mostPause  = 500 * time.Millisecond
)

// events receives what happens to a client and to the nodes that it watches. Its methods don't block. A
// sessionqueue.Store implements it.
type events interface {
	Reconnected()
	Over(*client)
	Changed(c *client, w sessionqueue.Watch, deleted bool)
}

// connect begins a session, and returns its client.
func connect(ctx context.Context, set *settings, told events) (*client, error) {
	c := &client{settings: set, lag: set.tick, changed: make(chan struct{})}
	c.life, c.end = context.WithCancel(context.Background())
	first := true
	callback := func(e zk.Event) {
		switch {
		case e.Type != zk.EventSession:
			for _, w := range firedBy(e) {
				told.Changed(c, w, e.Type == zk.EventNodeDeleted)
			}
		case e.State == zk.StateHasSession:
			c.connected()
			if !first {
				told.Reconnected()
			}
			first = false
		case e.State == zk.StateDisconnected:
			c.disconnected()
		case e.State == zk.StateExpired:
			c.expire()
			told.Over(c)
		}
	}
	conn, ended, err := zk.Connect(set.servers, set.ttl, zk.WithEventCallback(callback), zk.WithHostProvider(c),
		zk.WithDialer(c.dial), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	c.conn, c.ended = conn, ended
	if err := c.await(ctx); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// silent is the library's logger. It logs nothing, since failures are returned as errors.
type silent struct{}

// Printf implements zk.Logger.
func (silent) Printf(string, ...any) {}

// Init implements zk.HostProvider.
func (c *client) Init(servers []string) error {
	c.hosts = servers
	return nil
}

// Len implements zk.HostProvider.
func (c *client) Len() int { return len(c.hosts) }

// Connected implements zk.HostProvider.
func (c *client) Connected() {}

// Next implements zk.HostProvider. If retryStart is true, the library checks whether it was closed, and waits for a
// second.
func (c *client) Next() (server string, retryStart bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	server = c.hosts[c.next%len(c.hosts)]
	c.next++
	return server, c.life.Err() != nil
}

// dial opens a connection. It fails after the end of the session: the library would begin another session over it.
func (c *client) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c.mu.Lock()
	c.attempts++
	rounds := (c.attempts - 1) / len(c.hosts)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(c.life, timeout+mostPause)
	defer cancel()
	if rounds > 0 {
		pause.For(ctx, min(leastPause<<min(rounds, 10), mostPause))
	}
	conn, err := c.settings.dial(ctx, network, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.life.Err() != nil {
		conn.Close() //nolint:errcheck // it is not used
		err = c.life.Err()
	}
	if err != nil {
		c.fail(err)
		return nil, err
	}
	c.dialed = &link{Conn: conn, patience: timeout, watches: c.watched.Load(), sent: touches{lag: c.lag}}
	return c.dialed, nil
}

// dial opens a connection, over TLS if that is configured. The error wraps errHandshake if only the handshake failed.
func (s *settings) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if s.tls == nil {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	conn, err := (&tls.Dialer{Config: s.tls}).DialContext(ctx, network, address)
	if op, ok := errors.AsType[*net.OpError](err); err != nil && (!ok || op.Op != "dial") {
		err = fmt.Errorf("%w: %w", errHandshake, err)
	}
	return conn, err
}

// fail notes that a server could not be reached, or did not accept the session. If both happen in one round of all
// servers, the latter is kept. The mutex is locked.
func (c *client) fail(err error) {
	if c.failures%len(c.hosts) == 0 || !errors.Is(c.failure, errNoSession) {
		c.failure = err
	}
	c.failures++
	c.notify()
}

// notify wakes the goroutines that wait for a change. The mutex is locked.
func (c *client) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// connected notes that a server has accepted the session over the last connection.
func (c *client) connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.attempts = c.dialed, 0
	c.notify()
}

// disconnected notes that the connection has ended, or that a server did not accept the session over it.
func (c *client) disconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		c.fail(errNoSession)
		return
	}
	c.link, c.down = nil, time.Now()
	c.notify()
}

// expire notes that the session has ended.
func (c *client) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expired = true
	c.end()
	c.notify()
}

var (
	errNoSession = errors.New("a server has taken the connection and no session: " +
		"it finds no majority of the servers, is too slow, allows no more (maxClientCnxns), or expects TLS (zks://)")
	errHandshake = errors.New("the TLS handshake failed (does the server speak TLS at this port?)")
	errCut       = errors.New("the connection was closed")
)

// await waits for a connection. It returns ErrOver if the session has ended, the error of ctx, or the last failure when
// every server was tried since the call.
func (c *client) await(ctx context.Context) error {
	for before := -1; ; {
		c.mu.Lock()
		changed, up, expired, failure, failures := c.changed, c.link != nil, c.expired, c.failure, c.failures
		c.mu.Unlock()
		if before < 0 {
			before = failures
		}
		switch {
		case expired || c.life.Err() != nil:
			return sessionqueue.ErrOver
		case up:
			return nil
		case failures >= before+len(c.hosts):
			return failure
		}
		select {
		case <-changed:
		case <-c.life.Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// callTries bounds the attempts of a call whose connection is closed meanwhile: a server closes connections on which a
// request takes too long.
const callTries = 5

// call runs f, which has no context and may be carried out twice. If ctx ends first, f may still be carried out later.
func call[T any](ctx context.Context, c *client, f func(*zk.Conn) (T, error)) (result T, err error) {
	for range callTries {
		logins := c.logins.count.Load()
		if result, err = callOnce(ctx, c, f); !isCut(err) && !c.refused(ctx, err, logins) {
			break
		}
	}
	return result, err
}

// callOnce is call for an f that must not be carried out twice.
func callOnce[T any](ctx context.Context, c *client, f func(*zk.Conn) (T, error)) (result T, err error) {
	if err := c.await(ctx); err != nil {
		return result, err
	}
	type outcome struct {
		result T
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := f(c.conn)
		done <- outcome{result, err}
	}()
	select {
	case o := <-done:
		if errors.Is(o.err, zk.ErrSessionExpired) || errors.Is(o.err, zk.ErrClosing) {
			o.err = sessionqueue.ErrOver
		}
		return o.result, o.err
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// request is call for an f without a result.
func request(ctx context.Context, c *client, f func(*zk.Conn) error) error {
	_, err := call(ctx, c, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, f(conn) })
	return err
}

// A failedOp is the error of a multi whose operation with this index was refused, so that nothing was done.
type failedOp struct {
	index int
	err   error
}

func (f *failedOp) Error() string { return f.err.Error() }
func (f *failedOp) Unwrap() error { return f.err }

// multi carries out operations in one step, or none of them. Only a majority of the servers can do that, even if they
// write nothing. alive is the time as of which the leader knows that the session lives; it is zero if that is not
// certain. If an operation was refused, the error is a *failedOp.
func (c *client) multi(ctx context.Context, ops ...any) (results []zk.MultiResponse, alive time.Time, err error) {
	logins := c.logins.count.Load()
	results, alive, err = c.multiOnce(ctx, ops...)
	if c.refused(ctx, err, logins) {
		results, alive, err = c.multiOnce(ctx, ops...)
	}
	return results, alive, err
}

func (c *client) multiOnce(ctx context.Context, ops ...any) (results []zk.MultiResponse, alive time.Time, err error) {
	proof := c.proof(time.Now())
	results, err = callOnce(ctx, c, func(conn *zk.Conn) ([]zk.MultiResponse, error) { return conn.Multi(ops...) })
	if err == nil {
		return results, c.alive(proof), nil
	}
	failed := func(r zk.MultiResponse) bool { return r.Error != nil }
	if i := slices.IndexFunc(results, failed); i >= 0 {
		return results, time.Time{}, &failedOp{i, results[i].Error}
	}
	return nil, time.Time{}, err
}

// A proof is what the client knows to be reported to the leader once a request has been carried out.
type proof struct {
	link  *link     // over which it was sent; nil: none
	alive time.Time // as of when the leader knows then that the session lives
}

// proof returns the proof of a request that is sent now.
//
// The leader expires a session by its own knowledge, and the server that the client is connected to may know more: it
// reports its sessions to the leader every half tick, and between reports not even a request that it forwards extends
// them. But it forwards requests and reports over one connection. Suppose that the client sends a request and the
// leader has carried it out. Then everything that the server had received one lag before the request was sent has been
// reported to the leader, if a server reports within the lag. The client knows from a response that the server had
// received something.
func (c *client) proof(now time.Time) proof {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return proof{}
	}
	return proof{c.link, c.link.sent.before(now.Add(-c.lag))}
}

// alive returns the time as of which the leader knows that the session lives, now that a request was carried out. It is
// zero if the request may have been carried out through another server.
func (c *client) alive(p proof) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != p.link {
		return time.Time{}
	}
	return p.alive
}

// cut closes the connection, so that the library tries another server.
func (c *client) cut() {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l != nil {
		l.Conn.Close() //nolint:errcheck // it is not used any more
	}
}

// downFor returns for how long there has been no connection.
func (c *client) downFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil || c.down.IsZero() {
		return 0
	}
	return time.Since(c.down)
}

// close ends the session if a server can be reached, and the client's goroutines. If none can be reached, the library
// takes a second.
func (c *client) close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.conn.Close()
	}()
	c.mu.Lock()
	connected := c.link != nil && !c.expired
	c.mu.Unlock()
	if connected {
		<-closed
	}
	c.end()
	c.mu.Lock()
	last := c.dialed
	c.mu.Unlock()
	if last != nil {
		last.Conn.Close() //nolint:errcheck // it is not used any more
	}
	for range c.ended { // until it is closed
	}
	<-closed
}

// raiseEpoch sets the session's epoch to this one, unless it is later already.
func (c *client) raiseEpoch(epoch int32) {
	for old := c.epoch.Load(); epoch > old && !c.epoch.CompareAndSwap(old, epoch); old = c.epoch.Load() {
	}
}
