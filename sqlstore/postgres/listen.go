package postgres

import (
	"context"
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

	// linger is for how long a client listens after its claims have ceased to wait. It must be longer than the pause
	// between two looks of one that listens.
	linger = time.Second

	// A connection on which nothing came for pingEvery is asked whether it lives.
	pingEvery   = 30 * time.Second
	pingTimeout = 5 * time.Second
)

// A connect makes a connection.
type connect func(context.Context) (*pgx.Conn, error)

// A listener receives the grants of a client, on a connection of its own, while claims of the client wait. A push is a
// hint that saves time: it can be lost, since a client that waits also looks.
type listener struct {
	connect connect // nil: it cannot listen
	frame   *frame.Frame
	inbox   string
	notify  atomic.Pointer[func(store.ID, store.Status)]

	left   atomic.Pointer[context.CancelFunc] // ends the connection of the moment
	once   sync.Once
	pooled atomic.Bool   // a pooler is between: notifications never arrive
	wake   chan struct{} // of size 1: it was asked to listen, and does not

	mu    sync.Mutex
	on    bool      // notifications arrive
	asked time.Time // when it was last asked to listen
}

// address returns what the claims of this client are to be notified at, or "".
func (l *listener) address() string {
	if l.connect == nil || l.pooled.Load() {
		return ""
	}
	return l.inbox
}

// start has the client listen for a while, and reports whether notifications arrive.
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

// isAsked waits until the client is asked to listen. It reports false if the time is up, or its life.
func (l *listener) isAsked(life context.Context, up <-chan time.Time) bool {
	select {
	case <-l.wake:
		return true
	case <-up:
	case <-life.Done():
	}
	return false
}

// wanted returns for how long notifications are wanted. When they no longer are, none are promised.
func (l *listener) wanted() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := linger - time.Since(l.asked)
	l.on = left > 0
	return left
}

// run connects whenever the client is asked to listen, until the store is closed or a pooler is found between.
func (l *listener) run() {
	pause := firstPause
	for !l.pooled.Load() && l.isAsked(l.frame.Life(), nil) {
		if l.serve() {
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

// serve connects, and listens now and whenever the client is asked to, until the connection ends or was idle for long. It
// reports whether it has listened.
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
		ok = execute(life, conn, "UNLISTEN *") && l.isAsked(life, time.After(maxIdle))
	}
	return listened
}

// leave has the listener connect anew: calls have found that the server is no longer the primary.
func (l *listener) leave() {
	if leave := l.left.Load(); leave != nil {
		(*leave)()
	}
}

// inspect refuses a connection that would hear nothing. A pooler gives its clients other process ids than the server
// does, and would pass notifications on to nobody.
func (l *listener) inspect(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	var readOnly bool
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid(), current_setting('transaction_read_only')::boolean").Scan(&pid, &readOnly)
	if err == nil && readOnly {
		err = errReadOnly // the notifications come from another server
	}
	if err == nil && pid != conn.PgConn().PID() {
		l.pooled.Store(true)
	}
	return err
}

// execute runs a statement, and reports whether it worked.
func execute(life context.Context, conn *pgx.Conn, statement string) bool {
	ctx, cancel := context.WithTimeout(life, pingTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, statement)
	return err == nil
}

// receive receives notifications for as long as they are wanted and the connection lives.
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

// lose notes that notifications do not arrive any more.
func (l *listener) lose() {
	l.mu.Lock()
	l.on = false
	l.mu.Unlock()
	l.frame.PushesLost()
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
		(*notify)(id, store.Status{State: store.Held, Ticket: ticket})
	case "gone":
		(*notify)(id, store.Status{State: store.Gone, Ticket: ticket})
	}
}
