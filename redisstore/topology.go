package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// A topology knows which server keeps what, and has the connections to it: single for one server, sentinels for the
// master that they name, cluster for the nodes of a cluster.
type topology interface {
	// begin connects.
	begin(ctx context.Context) error
	close()

	// keysFor returns the keys that lie where a key lies.
	keysFor(key string) *slotKeys

	// connect returns a connection to the node that keeps a slot: for what may grant or renew, or for everything else.
	connect(ctx context.Context, at *slotKeys, grants bool) (*connection, error)

	// arrive prepares the first use of a slot over a connection.
	arrive(ctx context.Context, w *connection, at *slotKeys) error

	// retry returns nil if what failed over w is to be tried again, and otherwise the error to report. w is nil if
	// nothing was sent. It waits as long as makes sense before a retry.
	retry(ctx context.Context, at *slotKeys, w *connection, err error, attempt int) error

	// hear subscribes to the pushes of a slot, and reports whether it was subscribed already.
	hear(ctx context.Context, at *slotKeys) (already bool, err error)

	// each calls visit for every node that keeps queues, until it fails.
	each(ctx context.Context, visit func(*node) error) error

	// prepare completes a new connection that scripts are run over, and listen one for pushes.
	prepare(n *node, w *connection, server *Server) error
	listen(n *node, w *connection) error
}

// tries are the attempts of a call at the node that keeps a slot. A topology may need several:
//
//	for try.next(ctx) {
//		answer = script.Run(ctx, try.conn, keys, args)
//		try.done(answer)
//	}
type tries struct {
	topology topology
	at       *slotKeys
	grants   bool // it may grant or renew, so replicas may have to acknowledge it

	made       int            // the number so far
	connection *connection    // of the last
	conn       rediswire.Doer // what it sends over
	receipt    *receipt       // the same, where replicas must acknowledge; otherwise nil
	sent       time.Time      // when it was sent
	answered   bool           // whether there are answers
	err        error          // why it failed
}

// try returns the attempts of a call for a slot. grants reports whether it may grant or renew.
func (b *base) try(at *slotKeys, grants bool) tries {
	return tries{topology: b.topology, at: at, grants: grants}
}

// next starts an attempt, unless the last one succeeded or another one is useless.
func (t *tries) next(ctx context.Context) bool {
	for {
		if t.made > 0 {
			if t.err == nil {
				return false
			}
			if t.err = t.topology.retry(ctx, t.at, t.connection, t.err, t.made-1); t.err != nil {
				return false
			}
		}
		t.made++
		t.answered = false
		if t.connection, t.err = t.topology.connect(ctx, t.at, t.grants); t.err == nil {
			t.sent = time.Now()
			t.err = t.topology.arrive(ctx, t.connection, t.at)
		}
		if t.err == nil {
			t.conn, t.receipt = t.connection.forTry()
			return true
		}
	}
}

// done ends an attempt with its responses. The first error counts, unless another one reports that the slot is kept
// elsewhere; a nil response is not an error.
func (t *tries) done(answers ...rediswire.Reply) {
	t.answered, t.err = true, nil
	for _, answer := range answers {
		err := answer.Error()
		if err == nil || errors.Is(err, rediswire.ErrNil) {
			continue
		}
		if t.err == nil || isMoving(err) || isMoved(err) {
			t.err = err
		}
	}
}

// runScript runs a script for a slot, with the keys and arguments that on returns for the connection of each attempt.
// It returns the last response, and the attempts. grants reports whether the script may grant or renew.
func (b *base) runScript(ctx context.Context, script *script, at *slotKeys, grants bool,
	on func(*connection) execution) (answer rediswire.Reply, try tries) {
	try = b.try(at, grants)
	for try.next(ctx) {
		e := on(try.connection)
		answer = script.Run(ctx, try.conn, e.Keys, e.Args)
		try.done(answer)
	}
	return answer, try
}

// counted returns the status, or an error if it is Held and too few replicas have acknowledged that. Waiting and Gone
// do not depend on replicas.
func (t *tries) counted(standing store.Status) (store.Status, error) {
	if t.receipt != nil && t.receipt.short != nil && standing.State == store.Held {
		return store.Status{}, t.receipt.short
	}
	return standing, nil
}

// How long to wait before connecting again for pushes: from the first to the last, doubling.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// single is the topology of one server, the one that the client leads to.
type single struct {
	store     *base
	home      *node
	at        *slotKeys                                 // the only ones
	failsOver bool                                      // a replica may be about to become the master
	info      func(ctx context.Context) (string, error) // Config.Info; may be nil
	reached   chan struct{}                             // holds a token when the server was reached again
}

// newSingle returns the topology of one server. It does not connect yet.
func (b *base) newSingle() *single {
	return &single{store: b, at: b.keys.only(b.channel), reached: make(chan struct{}, 1)}
}

// begin connects for commands and for pushes: a claim that waits can be notified from its first moment.
func (t *single) begin(ctx context.Context) error {
	for _, p := range []*reconnector{&t.home.commands, &t.home.pushes} {
		if _, err := p.Get(ctx); err != nil {
			return t.store.openFault(ctx, err, t.failsOver)
		}
	}
	if err := t.store.inspect(&t.store.server, ""); err != nil {
		return err
	}
	t.store.frame.Go(t.stayConnected)
	if t.info != nil {
		t.store.frame.Go(t.follow)
	}
	return nil
}

func (t *single) close() { t.home.close() }

func (t *single) keysFor(string) *slotKeys { return t.at }

func (t *single) connect(ctx context.Context, _ *slotKeys, grants bool) (*connection, error) {
	return t.home.connect(ctx, grants)
}

func (t *single) arrive(context.Context, *connection, *slotKeys) error { return nil } // prepare has

func (t *single) retry(_ context.Context, _ *slotKeys, _ *connection, err error, _ int) error {
	return err
}

func (t *single) hear(context.Context, *slotKeys) (already bool, err error) { return true, nil }

func (t *single) each(_ context.Context, visit func(*node) error) error { return visit(t.home) }

// prepare checks that the server supports the scripts, and that its run has raised the mark.
func (t *single) prepare(_ *node, w *connection, _ *Server) error {
	ctx, cancel := context.WithTimeout(t.store.frame.Life(), rediswire.DialTimeout)
	defer cancel()
	err := t.store.probe(ctx, w, t.at, t.at.topic)
	if err == nil {
		err = t.store.arrive(ctx, w, t.at)
	}
	if err == nil {
		rediswire.Notify(t.reached)
	}
	return err
}

func (t *single) listen(_ *node, w *connection) error {
	ctx, cancel := context.WithTimeout(t.store.frame.Life(), rediswire.DialTimeout)
	defer cancel()
	return w.Do(ctx, w.B().Subscribe().Channel(t.at.topic).Build()).Error()
}

// stayConnected stays connected for pushes until the store is closed. Pushes while it is not connected are lost.
func (t *single) stayConnected() {
	pause := firstPause
	for {
		w, err := t.home.pushes.Get(t.store.frame.Life())
		if err == nil {
			t.store.frame.PushesResumed()
			connected := time.Now()
			select {
			case <-w.Dead():
			case <-t.store.frame.Life().Done():
				return
			}
			t.store.frame.PushesLost()
			if time.Since(connected) > lastPause {
				pause = firstPause
			}
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-t.reached:
			pause = firstPause
		case <-t.store.frame.Life().Done():
			return
		}
	}
}

// followEvery is how often to check which server a client or dialer of the caller leads to.
const followEvery = time.Second

// follow checks which run of which server the client or dialer leads to, until the store is closed, and leaves every
// other.
func (t *single) follow() {
	for pause(t.store.frame.Life(), followEvery) {
		ctx, cancel := context.WithTimeout(t.store.frame.Life(), followEvery)
		text, err := t.info(ctx)
		cancel()
		if info := rediswire.ReadInfo(text); err == nil && info.Run() != "" {
			t.home.keepTo(runText(&info), errSwitched)
		}
	}
}
