package routines

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/pause"
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// Slots is the number of rows that serialise the resources of a database.
const Slots = 256

// MinTTL and MaxTTL bound the ttl of a claim.
const (
	MinTTL = 100 * time.Millisecond
	MaxTTL = 7 * 24 * time.Hour
)

const (
	// The pauses before a call is repeated that the server rolled back. They double.
	firstPause   = time.Millisecond
	longestPause = 100 * time.Millisecond

	// badConnections is how many connections in a row may fail before a call returns an error.
	badConnections = 3

	// silence is how long a call must have waited in vain before all other connections become suspect too, if no
	// response arrived on any of them meanwhile.
	silence = 100 * time.Millisecond

	// reachableFor is for how long after its last response a server is taken to be reachable.
	reachableFor = 30 * time.Second

	// thoroughEvery is how often Poll also reads whether queues need to be tidied.
	thoroughEvery = 500 * time.Millisecond
)

// A Text is the SQL of a database's calls. Parameters are in the order in which the engine's methods pass them.
type Text struct {
	Join, Keep, Leave, Break, Transfer, Tend, Look string // return results
	Expired                                        string // returns slot, prefix and name of queues with expired claims
	Queue                                          string // returns a place for each claim, in JSON
	Names                                          string // returns names
	Page                                           string // returns name, format and place, in JSON; see ReadPage
}

// A Dialect describes what is particular to a database and its driver.
type Dialect struct {
	Text
	Format  int
	Prepare bool  // each connection prepares each call once; only for a pool that is used by nothing else
	Leading []any // arguments that the driver needs before all others
	Grouped bool  // Keep takes claims in groups, and their slots; otherwise claims, and their owners
	Unsent  bool  // the driver returns driver.ErrBadConn for a query only if it has sent nothing

	// RolledBack reports whether the server rolled a call back because of other calls: a deadlock, a serialisation
	// failure.
	RolledBack func(error) bool
	// Demoted reports whether the server refused a call because it is read-only, and so no longer the primary.
	Demoted func(error) bool
	// Stuck reports whether a call was interrupted and left its transaction open. It may be nil if that cannot happen.
	Stuck func(error) bool
}

// An Engine is one client's connection to a database. It implements sqlstore.Engine without pushes.
type Engine struct {
	Dialect
	Frame    *frame.Frame
	DB       *sql.DB
	Owned    bool // DB is closed with the engine
	MaxIdle  int  // how many connections of DB may be idle; 0: DB is the program's, and so is the number
	Prefix   string
	Identity string
	Tokens   store.Survival

	// Inbox returns the address for pushes to this client, or "". It is nil if there are no pushes.
	Inbox func() string

	// Usage returns how many connections of the pool below DB are in use, and how many may be. Discard closes those
	// that are idle. Both are nil if DB has no pool below it.
	Usage   func() (inUse, most int)
	Discard func()

	// Left is called when a server was demoted. It may be nil.
	Left func()

	lastSuccess atomic.Int64 // when a call was last answered, by the wall clock
	holding     atomic.Int64 // how many connections calls of this engine have
	succeeded   atomic.Bool  // the last call that had a connection was answered
	retried     atomic.Pointer[func(error)]

	mu           sync.Mutex
	prepared     map[string]*sql.Stmt
	closed       bool
	lastThorough time.Time     // when Look was last thorough
	discarding   chan struct{} // closed when the idle connections are discarded; nil: no discarding is under way
}

var _ sqlstore.Engine = (*Engine)(nil)

// NotifyRetry sets the function that is called with the error of each call that the server has rolled back, and that is
// repeated.
func (e *Engine) NotifyRetry(fn func(error)) { e.retried.Store(&fn) }

// HidePassword masks a password in errors, until many others have followed.
func (e *Engine) HidePassword(password string) { e.Frame.HideLatest(password) }

// query runs a statement and calls scan for each row. A call that the server rolled back is repeated until ctx is done.
// A call that a demoted server refused is repeated on another connection. Before each attempt query calls begin.
func (e *Engine) query(ctx context.Context, text string, args []any, begin func(), scan func(*sql.Rows) error) error {
	sent := time.Now()
	wait := firstPause
	for bad := 0; ; {
		begin()
		rows, conn, err := e.send(ctx, text, args)
		for err == nil && rows.Next() {
			err = scan(rows)
		}
		if rows != nil {
			err = finish(rows, err)
		}
		e.release(conn, err)
		switch {
		case err == nil:
			e.lastSuccess.Store(time.Now().UnixNano())
			return nil
		case e.isStuck(err):
			if conn == nil {
				e.discardIdle(ctx) // the connection is one of them
			}
			return err
		case ctx.Err() != nil:
			if time.Since(sent) > silence && e.lastSuccess.Load() < sent.UnixNano() {
				e.discardIdle(ctx)
			}
			return err
		case e.RolledBack(err):
			if retried := e.retried.Load(); retried != nil {
				(*retried)(err)
			}
			if !pause.For(ctx, wait/2+rand.N(wait/2)) {
				return err
			}
			wait = min(2*wait, longestPause)
			continue
		case e.Demoted(err):
			e.discardIdle(ctx)
			if e.Left != nil {
				e.Left()
			}
		case !errors.Is(err, driver.ErrBadConn) || conn != nil && !e.Unsent:
			return err
		}
		if bad++; bad == badConnections {
			return err
		}
	}
}

// send sends a statement and returns its rows, and the connection that the caller must release. conn is nil for a
// prepared statement, whose connection the pool chooses, and if there is no connection.
func (e *Engine) send(ctx context.Context, text string, args []any) (rows *sql.Rows, conn *sql.Conn, err error) {
	if e.Prepare {
		statement, err := e.statement(ctx, text) //nolint:sqlclosecheck // it is kept
		if err != nil {
			return nil, nil, err
		}
		rows, err = statement.QueryContext(ctx, args...)
		return rows, nil, err
	}
	if conn, err = e.DB.Conn(ctx); err != nil {
		return nil, nil, e.explainNoConnection(ctx, err)
	}
	e.holding.Add(1)
	rows, err = conn.QueryContext(ctx, text, append(e.Leading[:len(e.Leading):len(e.Leading)], args...)...)
	return rows, conn, err
}

func (e *Engine) isStuck(err error) bool { return err != nil && e.Stuck != nil && e.Stuck(err) }

// release returns a connection to the pool after a call that ended with err. A connection with an open transaction is
// closed instead: the next statement of the program would become part of that transaction.
func (e *Engine) release(conn *sql.Conn, err error) {
	if conn == nil {
		return
	}
	e.succeeded.Store(err == nil)
	if e.isStuck(err) {
		discard(conn)
	}
	_ = conn.Close()
	e.holding.Add(-1)
}

// finish closes rows after they were read until err, or to their end. The error of the commit comes after the last row.
func finish(rows *sql.Rows, err error) error {
	defer rows.Close()
	if err != nil {
		return err
	}
	for rows.NextResultSet() { // CALL ends with a result of its own
	}
	return errors.Join(rows.Err(), rows.Close())
}

// statement returns a prepared statement. It is prepared at its first use, and by each connection again.
func (e *Engine) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	e.mu.Lock()
	statement, closed := e.prepared[text], e.closed
	e.mu.Unlock()
	if closed {
		return nil, store.ErrClosed
	}
	if statement != nil {
		return statement, nil
	}
	statement, err := e.DB.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	other := e.prepared[text]
	if e.closed {
		err = store.ErrClosed
	}
	if e.closed || other != nil {
		return other, errors.Join(err, statement.Close()) //nolint:sqlclosecheck // the other is used, or none
	}
	if e.prepared == nil {
		e.prepared = map[string]*sql.Stmt{}
	}
	e.prepared[text] = statement
	return statement, nil
}

// discardIdle closes idle connections: what broke one connection, a failover or a network failure without notice, has
// most likely broken them too. It waits for that until ctx is done.
func (e *Engine) discardIdle(ctx context.Context) {
	switch {
	case e.Discard != nil:
		e.Discard()
		return
	case e.MaxIdle > 0:
		e.DB.SetMaxIdleConns(0)
		e.DB.SetMaxIdleConns(e.MaxIdle)
		return
	}
	e.mu.Lock()
	done := e.discarding
	if done == nil {
		done = make(chan struct{})
		if !e.Frame.Go(func() { e.discardEach(done) }) {
			close(done)
		} else {
			e.discarding = done
		}
	}
	e.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// discardEach is discardIdle for the program's pool, which validates a connection before it hands it out. A connection
// that does not respond must not delay the others.
func (e *Engine) discardEach(done chan struct{}) {
	var each sync.WaitGroup
	for range e.DB.Stats().Idle {
		each.Go(func() {
			ctx, cancel := context.WithTimeout(e.Frame.Life(), silence)
			defer cancel()
			if conn, err := e.DB.Conn(ctx); err == nil {
				discard(conn)
				_ = conn.Close()
			}
		})
	}
	each.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.discarding = nil
	close(done)
}

// discard makes the pool close a connection instead of keeping it.
func discard(conn *sql.Conn) { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }

// explainNoConnection returns the error of a call that got no connection from the program's pool. If the program itself
// uses all connections, that is a Fault that says so. A pool can also be exhausted because the server does not respond.
// Then calls of this engine have connections, or the last call that had one failed, or no response arrived for long,
// and the error is err. The engine's own pool can only be exhausted for that second reason.
func (e *Engine) explainNoConnection(ctx context.Context, err error) error {
	own := int(e.holding.Load())
	stats := e.DB.Stats()
	inUse, most := stats.InUse, stats.MaxOpenConnections
	if e.Usage != nil {
		inUse, most = e.Usage()
	} else if e.Owned {
		return err
	}
	if ctx.Err() == nil || most == 0 || inUse-own < most || !e.succeeded.Load() {
		return err
	}
	busy := time.Since(time.Unix(0, e.lastSuccess.Load())) < reachableFor
	return &store.Fault{Store: e.Frame.Name, Busy: busy, Err: errFull}
}

var errFull = errors.New("all connections of the program's pool are in use")

// Notify implements sqlstore.Engine. This engine pushes nothing.
func (e *Engine) Notify(func(store.ID, store.Status)) {}

// Listen implements sqlstore.Engine.
func (e *Engine) Listen() bool { return false }

func (e *Engine) inbox() string {
	if e.Inbox == nil {
		return ""
	}
	return e.Inbox()
}

// Abilities implements sqlstore.Engine.
func (e *Engine) Abilities() store.Abilities {
	return store.Abilities{
		Store:        e.Frame.Name,
		Identity:     e.Identity + "/" + e.Prefix,
		Queue:        true,
		Shared:       true,
		Grace:        true,
		Detach:       true,
		MinTTL:       MinTTL,
		MaxTTL:       MaxTTL,
		TakeoverTTLs: 1,
		TakeoverPlus: 500 * time.Millisecond,
		Tokens:       e.Tokens,
	}
}

// Close implements sqlstore.Engine.
func (e *Engine) Close() error {
	e.mu.Lock()
	prepared := e.prepared
	e.prepared, e.closed = nil, true
	e.mu.Unlock()
	var err error
	for _, statement := range prepared {
		err = errors.Join(err, statement.Close())
	}
	if e.Owned {
		err = errors.Join(err, e.DB.Close())
	}
	return err
}
