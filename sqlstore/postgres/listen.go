package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/jackc/pgx/v5"
)

const (
	// After a failure the listener connects again, after a pause that grows.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second

	connectTimeout = 10 * time.Second

	// A connection on which nothing came for pingEvery is asked whether it lives.
	pingEvery   = 30 * time.Second
	pingTimeout = 5 * time.Second
)

// A connect makes a connection.
type connect func(context.Context) (*pgx.Conn, error)

// A listener receives the grants of a client, on a connection of its own. A push is a hint that saves time: it can be
// lost, since a client that waits also looks.
type listener struct {
	connect connect // nil: it cannot listen
	frame   *frame.Frame
	inbox   string
	notify  atomic.Pointer[func(store.ID, store.Standing)]

	left   atomic.Pointer[context.CancelFunc] // ends the connection of the moment
	once   sync.Once
	on     atomic.Bool // notifications arrive
	pooled atomic.Bool // a pooler is between: they never will
}

// address returns what the claims of this client are to be notified at, or "".
func (l *listener) address() string {
	if l.connect == nil || l.pooled.Load() {
		return ""
	}
	return l.inbox
}

// start begins to listen, and reports whether notifications arrive.
func (l *listener) start() bool {
	if l.connect != nil {
		l.once.Do(func() { l.frame.Go(l.run) })
	}
	return l.on.Load()
}

// run listens until the store is closed, or a pooler is found between.
func (l *listener) run() {
	pause := firstPause
	for !l.pooled.Load() && l.frame.Life().Err() == nil {
		if l.listen() {
			pause = firstPause
		} else {
			pause = min(2*pause, longestPause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.frame.Life().Done():
			timer.Stop()
		}
	}
}

// listen connects, and receives notifications until the connection ends. It reports whether there were any to receive.
func (l *listener) listen() (listened bool) {
	life, leave := context.WithCancel(l.frame.Life())
	defer leave()
	l.left.Store(&leave)
	ctx, cancel := context.WithTimeout(life, connectTimeout)
	conn, err := l.connect(ctx)
	if err == nil {
		err = l.subscribe(ctx, conn)
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
	l.on.Store(true)
	l.frame.PushesLost() // those of before, the first time too: a claim may have been broken since it joined
	l.frame.PushesResumed()
	for l.receive(life, conn) {
	}
	l.on.Store(false)
	l.frame.PushesLost()
	return true
}

// leave has the listener connect anew: calls have found that the server is no longer the primary.
func (l *listener) leave() {
	if leave := l.left.Load(); leave != nil {
		(*leave)()
	}
}

// subscribe subscribes to the client's channel. A pooler gives its clients other process ids than the server does, and
// would pass notifications on to nobody.
func (l *listener) subscribe(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	var readOnly bool
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid(), current_setting('transaction_read_only')::boolean").Scan(&pid, &readOnly)
	if err != nil {
		return err
	}
	if readOnly {
		return errReadOnly // the notifications come from another server
	}
	if pid != conn.PgConn().PID() {
		l.pooled.Store(true)
		return nil
	}
	_, err = conn.Exec(ctx, "LISTEN "+pgx.Identifier{"holdfast_" + l.inbox}.Sanitize())
	return err
}

// receive receives one notification. It reports false when the connection has ended.
func (l *listener) receive(life context.Context, conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(life, pingEvery)
	n, err := conn.WaitForNotification(ctx)
	cancel()
	if err == nil {
		l.deliver(n.Payload)
		return true
	}
	if !errors.Is(err, context.DeadlineExceeded) || conn.IsClosed() {
		return false
	}
	ctx, cancel = context.WithTimeout(life, pingTimeout)
	defer cancel()
	return conn.Ping(ctx) == nil
}

// deliver passes on a notification: state, id and ticket.
func (l *listener) deliver(payload string) {
	word, rest, _ := strings.Cut(payload, " ")
	text, number, _ := strings.Cut(rest, " ")
	var id store.ID
	ticket, err := strconv.ParseUint(number, 10, 64)
	notify := l.notify.Load()
	if err != nil || id.UnmarshalText([]byte(text)) != nil || id == store.Everyone || notify == nil {
		return // a later version may have more to say
	}
	switch word {
	case "held":
		(*notify)(id, store.Standing{State: store.Held, Ticket: ticket})
	case "gone":
		(*notify)(id, store.Standing{State: store.Gone, Ticket: ticket})
	}
}
