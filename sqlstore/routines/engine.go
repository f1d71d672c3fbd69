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

	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// Slots is how many rows serialise the resources of a database.
const Slots = 256

// MinTTL and MaxTTL bound the ttl of a claim.
const (
	MinTTL = 100 * time.Millisecond
	MaxTTL = 7 * 24 * time.Hour
)

const (
	// A call that the server rolled back is repeated after a pause, which grows.
	firstPause   = time.Millisecond
	longestPause = 100 * time.Millisecond

	// badConnections is how many connections in a row may turn out to be useless before a call fails.
	badConnections = 3

	// silence is how long a call waits before its end makes the other connections suspect too.
	silence = 100 * time.Millisecond

	// thoroughEvery is how often Look also reads whether there is something to be done in the lines.
	thoroughEvery = 500 * time.Millisecond
)

// A Text is the SQL of a database's calls. Their parameters are in the order of the engine's methods.
type Text struct {
	Join, Keep, Leave, Break, Tend, Look string // return answers
	Expired                              string // returns slot, prefix and name of lines that have expired claims
	Line                                 string // returns a place for each claim, in JSON
	Names                                string // returns names
}

// A Dialect is what an engine has to know of its database.
type Dialect struct {
	Text
	Format  int
	Prepare bool  // calls are prepared once for each connection
	Leading []any // arguments that the driver wants before all others

	// RolledBack reports that the server has undone a call because others were in its way: a deadlock, a
	// serialisation failure.
	RolledBack func(error) bool
	// Demoted reports that the server has refused a call because it may only read: it is no longer the primary.
	Demoted func(error) bool
	// Stuck reports that a call was interrupted and has left its transaction open. nil: none does.
	Stuck func(error) bool
}

// An Engine is one client's connection to a database. It implements sqlstore.Engine without pushes.
type Engine struct {
	Dialect
	Frame    *frame.Frame
	DB       *sql.DB
	Owned    bool // DB is closed with the engine
	Prefix   string
	Identity string
	Tokens   store.Survival

	// Inbox returns what pushes of this client's claims are addressed to, or "". nil: there are none.
	Inbox func() string

	retried  atomic.Pointer[func(error)]
	mu       sync.Mutex
	prepared map[string]*sql.Stmt
	thorough time.Time // when Look was last thorough
}

var _ sqlstore.Engine = (*Engine)(nil)

// NotifyRetry sets the function that is called with the error of each call that the server has rolled back, and that is
// repeated.
func (e *Engine) NotifyRetry(fn func(error)) { e.retried.Store(&fn) }

// query runs a statement and calls scan for each row. A call that the server rolled back is repeated for as long as ctx
// allows, and one that a demoted server has refused on another connection.
func (e *Engine) query(ctx context.Context, text string, args []any, begin func(), scan func(*sql.Rows) error) error {
	sent := time.Now()
	pause := firstPause
	for bad := 0; ; {
		if begin != nil {
			begin()
		}
		err := e.once(ctx, text, args, scan)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			if time.Since(sent) > silence {
				e.discardIdle()
			}
			return e.whileFull(err)
		case e.RolledBack(err):
			if retried := e.retried.Load(); retried != nil {
				(*retried)(err)
			}
			if !sleep(ctx, pause/2+rand.N(pause/2)) {
				return err
			}
			pause = min(2*pause, longestPause)
			continue
		case e.Demoted(err):
			e.discardIdle()
		case e.Stuck != nil && e.Stuck(err):
			e.discardIdle() // the transaction ends with its connection
			return err
		case !errors.Is(err, driver.ErrBadConn):
			return err
		}
		if bad++; bad == badConnections {
			return err
		}
	}
}

// once runs a statement once. The last error comes after the rows: that of the commit.
func (e *Engine) once(ctx context.Context, text string, args []any, scan func(*sql.Rows) error) (err error) {
	var rows *sql.Rows
	if e.Prepare {
		var statement *sql.Stmt
		if statement, err = e.statement(ctx, text); err != nil {
			return err
		}
		rows, err = statement.QueryContext(ctx, args...)
	} else {
		rows, err = e.DB.QueryContext(ctx, text, append(e.Leading[:len(e.Leading):len(e.Leading)], args...)...)
	}
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // it has been asked for
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	for rows.NextResultSet() { //nolint:revive // a call ends with a result of its own
	}
	return errors.Join(rows.Err(), rows.Close())
}

// statement prepares a statement when it is first used. Each connection does so again.
func (e *Engine) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	e.mu.Lock()
	statement := e.prepared[text]
	e.mu.Unlock()
	if statement != nil {
		return statement, nil
	}
	statement, err := e.DB.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if other := e.prepared[text]; other != nil {
		return other, statement.Close()
	}
	if e.prepared == nil {
		e.prepared = map[string]*sql.Stmt{}
	}
	e.prepared[text] = statement
	return statement, nil
}

// discardIdle closes the connections that nobody uses: what made one useless, a failover or a cut that nobody was told
// of, has most likely happened to them too.
func (e *Engine) discardIdle() {
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	for range e.DB.Stats().Idle {
		conn, err := e.DB.Conn(ctx)
		if err != nil {
			return
		}
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	}
}

// whileFull explains why a call got no connection of a pool that others have used up.
func (e *Engine) whileFull(err error) error {
	if s := e.DB.Stats(); s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections {
		return &store.Fault{Store: e.Frame.Name, Busy: true, Err: errFull}
	}
	return err
}

var errFull = errors.New("all connections of the pool are in use")

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Notify implements sqlstore.Engine. This engine has nothing to tell.
func (e *Engine) Notify(func(store.ID, store.Standing)) {}

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
		Line:         true,
		Shared:       true,
		Grace:        true,
		MinTTL:       MinTTL,
		MaxTTL:       MaxTTL,
		TakeoverTTLs: 1,
		TakeoverPlus: 500 * time.Millisecond,
		ExactWake:    true,
		Tokens:       e.Tokens,
	}
}

// Close implements sqlstore.Engine.
func (e *Engine) Close() error {
	e.mu.Lock()
	prepared := e.prepared
	e.prepared = nil
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
