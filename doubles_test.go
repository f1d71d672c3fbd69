package holdfast_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A detour is a store that a test watches, and where it can stand in the way. It counts the calls and notes the claims
// that have joined. What join, keep and leave return, if not nil, replaces the store's response; joined and
// answer change the store's. All is set before a client has it, but for answer.
type detour struct {
	store.Store
	join   func(context.Context, store.Claim) error
	joined func(store.Claim, *store.Status) error
	keep   func(context.Context, []store.Claim) error
	leave  func(context.Context, store.Claim) error
	can    func(*store.Abilities)
	deaf   bool // no push comes through
	push   func(store.ID, store.Status)

	joins, keeps, kept, leaves, looks atomic.Int64

	mu     sync.Mutex
	answer func(store.Claim, *store.Status) // of Keep
	claims []store.Claim                    // with their tickets
}

func (d *detour) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	d.joins.Add(1)
	if d.join != nil {
		if err := d.join(ctx, c); err != nil {
			return store.Status{}, err
		}
	}
	s, err := d.Store.Join(ctx, c)
	if err == nil && d.joined != nil {
		err = d.joined(c, &s)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c.Ticket = s.Ticket
	d.claims = append(d.claims, c)
	return s, err
}

func (d *detour) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	d.keeps.Add(1)
	d.kept.Add(int64(len(cs)))
	if d.keep != nil {
		if err := d.keep(ctx, cs); err != nil {
			return nil, err
		}
	}
	standings, err := d.Store.Keep(ctx, cs)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range standings {
		if d.answer != nil {
			d.answer(cs[i], &standings[i])
		}
	}
	return standings, err
}

func (d *detour) Leave(ctx context.Context, c store.Claim) error {
	d.leaves.Add(1)
	if d.leave != nil {
		if err := d.leave(ctx, c); err != nil {
			return err
		}
	}
	return d.Store.Leave(ctx, c)
}

func (d *detour) Queue(ctx context.Context, name string) (store.Queue, error) {
	d.looks.Add(1)
	return d.Store.Queue(ctx, name)
}

func (d *detour) Notify(fn func(store.ID, store.Status)) {
	if d.push = fn; !d.deaf {
		d.Store.Notify(fn)
	}
}

func (d *detour) Abilities() store.Abilities {
	a := d.Store.Abilities()
	if d.can != nil {
		d.can(&a)
	}
	return a
}

// lie changes what Keep returns from now on.
func (d *detour) lie(answer func(store.Claim, *store.Status)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = answer
}

// claim is the i-th that has joined.
func (d *detour) claim(i int) store.Claim {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.claims[i]
}

// pushed pushes news of a claim, true or not.
func (d *detour) pushed(c store.Claim, state store.State) {
	d.push(c.ID, store.Status{State: state, Ticket: c.Ticket})
}

// around is a client that goes over d, to the rig's server if d leads nowhere yet.
func (r *rig) around(d *detour, options ...holdfast.Option) *holdfast.Client {
	if d.Store == nil {
		d.Store = r.server.Connect()
	}
	c := holdfast.New(d, options...)
	r.Cleanup(func() { c.Close() })
	return c
}

// counted is a client whose calls are counted.
func (r *rig) counted(options ...holdfast.Option) (*holdfast.Client, *detour) {
	d := &detour{}
	return r.around(d, options...), d
}

// countedLink is a client behind a link that can fail, whose calls are counted.
func (r *rig) countedLink(options ...holdfast.Option) (*holdfast.Client, *detour, *storetest.Pipe) {
	pipe := storetest.NewPipe()
	d := &detour{Store: r.server.Connect(memstore.WithNetwork(pipe))}
	c := r.around(d, options...)
	r.Cleanup(pipe.Kill)
	return c, d, pipe
}

// hang is a call that never gets a response.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// slow is a call that takes so long.
func slow(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errDown is the error of a failing store.
var errDown = &store.Fault{Store: "it", Err: errors.New("down")}

// secondJoinFails is a store that fails once.
func secondJoinFails() *detour {
	d := &detour{}
	d.join = func(context.Context, store.Claim) error {
		if d.joins.Load() == 2 {
			return errDown
		}
		return nil
	}
	return d
}

// slowJoin is a store whose n-th Join takes until land is closed.
func slowJoin(n int64) (d *detour, land chan struct{}) {
	d, land = &detour{}, make(chan struct{})
	d.join = func(context.Context, store.Claim) error {
		if d.joins.Load() == n {
			<-land
		}
		return nil
	}
	return d, land
}

// A logbook is a slog.Handler that keeps all records.
type logbook struct {
	before func() // called first, by Enabled and Handle

	mu   sync.Mutex
	said []string
}

func (b *logbook) option() holdfast.Option { return holdfast.WithLogger(slog.New(b)) }

func (b *logbook) Enabled(context.Context, slog.Level) bool {
	if b.before != nil {
		b.before()
	}
	return true
}

func (b *logbook) Handle(_ context.Context, r slog.Record) error {
	if b.before != nil {
		b.before()
	}
	var line strings.Builder
	line.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		line.WriteString(" " + a.String())
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, line.String())
	return nil
}

func (b *logbook) WithAttrs([]slog.Attr) slog.Handler { return b }

func (b *logbook) WithGroup(string) slog.Handler { return b }

func (b *logbook) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said
}

// count returns how many records contain this.
func (b *logbook) count(what string) (n int) {
	for _, line := range b.lines() {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}

// A span is a wait or a lease, as an Observer saw it.
type span struct {
	holdfast.Request
	id    int
	token holdfast.Token  // of a lease
	given context.Context // what Waiting or Holding was given
	ends  int             // how often it was over
	why   error           // with what, the last time
}

// A note is one call of another method.
type note struct {
	holdfast.Request
	token holdfast.Token
	left  time.Duration
	err   error
}

// A renewal is one call of Renewed.
type renewal struct {
	store  string
	claims int
	took   time.Duration
	err    error
}

// A recorder is an Observer that writes down everything.
type recorder struct {
	mu         sync.Mutex
	waits      []*span
	holds      []*span
	renewals   []renewal
	jeopardies []note
	handed     []note
	deadlocks  []note
	retries    []string
}

// The keys under which a recorder puts the number of the span into a context.
type (
	waitKey struct{}
	holdKey struct{}
)

func (o *recorder) begin(spans *[]*span, s *span) (id int, over func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.id = len(*spans) + 1
	*spans = append(*spans, s)
	return s.id, func(why error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		s.ends++
		s.why = why
	}
}

func (o *recorder) Waiting(ctx context.Context, r holdfast.Request) (context.Context, func(error)) {
	id, over := o.begin(&o.waits, &span{Request: r, given: ctx})
	return context.WithValue(ctx, waitKey{}, id), over
}

func (o *recorder) Holding(ctx context.Context, r holdfast.Request, token holdfast.Token) (context.Context,
	func(error)) {
	id, over := o.begin(&o.holds, &span{Request: r, token: token, given: ctx})
	return context.WithValue(ctx, holdKey{}, id), over
}

func (o *recorder) Renewed(store string, claims int, took time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.renewals = append(o.renewals, renewal{store, claims, took, err})
}

func (o *recorder) Jeopardy(r holdfast.Request, token holdfast.Token, left time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.jeopardies = append(o.jeopardies, note{r, token, left, err})
}

func (o *recorder) HandedOver(r holdfast.Request, token holdfast.Token) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handed = append(o.handed, note{Request: r, token: token})
}

func (o *recorder) Deadlocked(r holdfast.Request, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deadlocks = append(o.deadlocks, note{Request: r, err: err})
}

func (o *recorder) Retried(store string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retries = append(o.retries, store+": "+err.Error())
}

// last is the youngest of spans.
func (o *recorder) last(spans *[]*span) span {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(*spans) == 0 {
		return span{}
	}
	return *(*spans)[len(*spans)-1]
}

// counts is how many waits and leases there were.
func (o *recorder) counts() (waits, holds int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waits), len(o.holds)
}

// allOver checks that everything that began was over once.
func (o *recorder) allOver(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for what, spans := range map[string][]*span{"wait": o.waits, "lease": o.holds} {
		for _, s := range spans {
			if s.ends != 1 {
				t.Errorf("%s %d, %s %q, was over %d times, the last with %v", what, s.id, s.Op, s.Name, s.ends, s.why)
			}
		}
	}
}

// observed is a client with an Observer that writes everything down.
func (r *rig) observed(options ...holdfast.Option) (*holdfast.Client, *recorder) {
	o := &recorder{}
	return r.client(append(options, holdfast.WithObserver(o))...), o
}
