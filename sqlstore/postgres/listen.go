package postgres

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/dbserver"
	"github.com/holdfast-go/holdfast/internal/pause"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/jackc/pgx/v5"
)

const (
	// The pauses before the listener connects again after a failure. They double.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second

	connectTimeout = 10 * time.Second

	// linger is how long a client listens after its last claim has waited. It must be longer than the pause between two
	// polls of a client that listens.
	linger = time.Second

	// A connection on which nothing arrived for pingEvery is tested with a query.
	pingEvery   = 30 * time.Second
	pingTimeout = 5 * time.Second
)

// connect returns a new connection.
type connect func(context.Context) (*pgx.Conn, error)

// A listener receives the notifications for a client, on a connection of its own, while claims of the client wait. A
// notification may be lost: a client that waits also polls.
type listener struct {
	connect connect // nil: this client cannot listen
	frame   *frame.Frame
	inbox   string
	notify  atomic.Pointer[func(store.ID, store.Status)]

	left   atomic.Pointer[context.CancelFunc] // ends the current connection
	once   sync.Once
	pooled atomic.Bool   // a pooler is between: notifications never arrive
	wake   chan struct{} // of size 1: listening was requested and is off

	mu    sync.Mutex
	on    bool      // notifications arrive
	asked time.Time // when listening was last requested
}

// address returns the inbox to which the claims of this client are notified, or "".
func (l *listener) address() string {
	if l.connect == nil || l.pooled.Load() {
		return ""
	}
	return l.inbox
}

// start requests that the client listens for the next linger, and reports whether notifications arrive already.
func (l *listener) start() bool {
	if l.connect == nil {
		return false
	}
	l.once.Do(func() { l.frame.Go(l.run) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = time.Now()
	if !l.on {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return l.on
}

// isAsked waits until start requests to listen. It returns false if up fires or life ends first.
func (l *listener) isAsked(life context.Context, up <-chan time.Time) bool {
	select {
	case <-l.wake:
		return true
	case <-up:
	case <-life.Done():
	}
	return false
}

// wanted returns for how long notifications are still wanted. If they are not, start returns false from then on.
func (l *listener) wanted() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := linger - time.Since(l.asked)
	l.on = left > 0
	return left
}

// run connects whenever listening is requested, until the store is closed or a pooler is found between client and
// server.
func (l *listener) run() {
	wait := firstPause
	for !l.pooled.Load() && l.isAsked(l.frame.Life(), nil) {
		if l.serve() {
			wait = firstPause
		} else {
			wait = min(2*wait, longestPause)
		}
		pause.For(l.frame.Life(), wait)
	}
}

// serve connects, and listens now and whenever it is requested, until the connection ends or was idle for
// dbserver.MaxIdle. It reports whether it has listened.
func (l *listener) serve() (listened bool) {
	life, leave := context.WithCancel(l.frame.Life())
	defer leave()
	l.left.Store(&leave)
	ctx, cancel := context.WithTimeout(life, connectTimeout)
	conn, err := l.connect(ctx)
	if err == nil {
		err = l.inspect(ctx, conn)
	}
	cancel()
	if conn != nil {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(life), pingTimeout)
			defer cancel()
			_ = conn.Close(ctx)
		}()
	}
	if err != nil || l.pooled.Load() {
		return false
	}
	for ok := true; ok && execute(life, conn, "LISTEN "+pgx.Identifier{"holdfast_" + l.inbox}.Sanitize()); {
		listened = true
		l.receive(life, conn)
		ok = execute(life, conn, "UNLISTEN *") && l.isAsked(life, time.After(dbserver.MaxIdle))
	}
	return listened
}

// leave makes the listener reconnect. It is called when the server is no longer the primary.
func (l *listener) leave() {
	if leave := l.left.Load(); leave != nil {
		(*leave)()
	}
}

// inspect returns an error for a read-only server, and sets pooled if a pooler is between: no notification arrives
// there. A pooler reports another process id than the server does.
func (l *listener) inspect(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	var readOnly bool
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid(), current_setting('transaction_read_only')::boolean").
		Scan(&pid, &readOnly)
	if err == nil && readOnly {
		err = errReadOnly // the notifications come from another server
	}
	if err == nil && pid != conn.PgConn().PID() {
		l.pooled.Store(true)
	}
	return err
}

// execute runs a statement and reports whether it succeeded.
func execute(life context.Context, conn *pgx.Conn, statement string) bool {
	ctx, cancel := context.WithTimeout(life, pingTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, statement)
	return err == nil
}

// receive delivers notifications for as long as they are wanted and the connection is open.
func (l *listener) receive(life context.Context, conn *pgx.Conn) {
	l.frame.PushesResumed()
	heard := time.Now()
	for left := l.wanted(); left > 0; left = l.wanted() {
		ctx, cancel := context.WithTimeout(life, left)
		n, err := conn.WaitForNotification(ctx)
		cancel()
		lives := !conn.IsClosed() && life.Err() == nil
		switch {
		case err == nil:
			l.deliver(n.Payload)
			heard = time.Now()
		case lives && time.Since(heard) > pingEvery:
			lives = execute(life, conn, "-- ping")
			heard = time.Now()
		}
		if !lives {
			l.lose()
			return
		}
	}
}

// lose records that notifications no longer arrive.
func (l *listener) lose() {
	l.mu.Lock()
	l.on = false
	l.mu.Unlock()
	l.frame.PushesLost()
}

// deliver pushes the content of a notification: state, id and ticket.
func (l *listener) deliver(payload string) {
	word, rest, _ := strings.Cut(payload, " ")
	text, number, _ := strings.Cut(rest, " ")
	var id store.ID
	ticket, err := strconv.ParseUint(number, 10, 64)
	notify := l.notify.Load()
	if err != nil || id.UnmarshalText([]byte(text)) != nil || id == store.Everyone || notify == nil {
		return // it may be of a later version
	}
	switch word {
	case "held":
		(*notify)(id, store.Status{State: store.Held, Ticket: ticket})
	case "gone":
		(*notify)(id, store.Status{State: store.Gone, Ticket: ticket})
	}
}
