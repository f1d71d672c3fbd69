package webui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	flushEvery  = 250 * time.Millisecond // how often changes are sent
	pingEvery   = 5 * time.Second        // how often a message is sent if nothing changes
	searchEvery = time.Second            // how often deadlocks are searched for while queues change
	// How long the watch goes on without viewers, so that a reload keeps the timeline.
	defaultLinger = 5 * time.Second
	maxBehind     = 64              // how many messages a viewer can be behind before it is dropped
	freshFor      = time.Second     // how long the time left that was read serves other viewers too
	maxReads      = 8               // how many queues are read at once
	inspectLimit  = 5 * time.Second // how long a read may take
)

var (
	errTooMany = errors.New("too many viewers")
	errClosed  = errors.New("the handler is closed")
)

// A hub has the one watch that all viewers share.
type hub struct {
	client     *holdfast.Client
	prefix     string
	maxViewers int
	lingerFor  time.Duration
	closed     context.Context // done when Close was called
	reads      chan struct{}   // slots for reads
	wait       sync.WaitGroup  // of the goroutines of the watch

	mu      sync.Mutex
	board   *board
	viewers map[*viewer]bool
	stop    context.CancelFunc // of the watch, nil if there is none
	linger  *time.Timer
	fresh   map[string]*freshRead
}

// A viewer is a page that is connected.
type viewer struct {
	messages chan []byte // closed when the viewer is dropped
}

// A freshRead is a read of a queue that viewers share.
type freshRead struct {
	at   time.Time
	done chan struct{}
}

// newHub returns a hub without viewers.
func newHub(closed context.Context, client *holdfast.Client, prefix string, maxViewers int) *hub {
	return &hub{
		client: client, prefix: prefix, maxViewers: maxViewers, lingerFor: defaultLinger, closed: closed,
		reads: make(chan struct{}, maxReads),
		board: newBoard(), viewers: map[*viewer]bool{}, fresh: map[string]*freshRead{},
	}
}

// join adds a viewer, and starts the watch for the first one. The viewer's first message has everything.
func (h *hub) join() (*viewer, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed.Err() != nil:
		return nil, errClosed
	case len(h.viewers) >= h.maxViewers:
		return nil, errTooMany
	}
	if h.linger != nil {
		h.linger.Stop()
		h.linger = nil
	}
	if h.stop == nil {
		ctx, cancel := context.WithCancel(h.closed)
		h.stop, h.board = cancel, newBoard()
		b := h.board
		h.wait.Go(func() { h.watch(ctx, b) })
		h.wait.Go(func() { h.flush(ctx, b) })
	}
	v := &viewer{messages: make(chan []byte, maxBehind)}
	v.messages <- h.snapshot()
	h.viewers[v] = true
	return v, nil
}

// leave removes a viewer. The watch ends a while after the last one has left.
func (h *hub) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.viewers, v)
	if len(h.viewers) > 0 || h.stop == nil || h.linger != nil {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(h.lingerFor, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.linger == t {
			h.end()
		}
	})
	h.linger = t
}

// end stops the watch and forgets what it reported, with mu held.
func (h *hub) end() {
	if h.linger != nil {
		h.linger.Stop()
	}
	if h.stop != nil {
		h.stop()
	}
	h.stop, h.linger, h.board = nil, nil, newBoard()
	clear(h.fresh)
}

// watch feeds the board until ctx ends.
func (h *hub) watch(ctx context.Context, b *board) {
	for batch, err := range h.client.Watch(ctx, h.prefix) {
		h.mu.Lock()
		if err != nil {
			b.fail(err, time.Now())
		} else {
			b.apply(batch, time.Now())
		}
		h.mu.Unlock()
	}
}

// flush sends the viewers what changed, and searches for deadlocks, until ctx ends.
func (h *hub) flush(ctx context.Context, b *board) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var f flusher
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			h.mu.Lock()
			if msg := f.message(b, now); msg != nil && ctx.Err() == nil {
				h.broadcast(msg)
			}
			h.mu.Unlock()
		}
	}
}

// A flusher decides what is sent when.
type flusher struct {
	sent     time.Time // when the last message was
	searched time.Time
	version  uint64 // of the board at the last search
	again    bool   // search although nothing changed
	loaded   bool   // as the viewers know it
	failing  string // likewise
	unread   int    // likewise
}

// message returns the next message for all viewers, or nil.
func (f *flusher) message(b *board, now time.Time) []byte {
	deadlocks := false
	if (f.again || f.version != b.version) && now.Sub(f.searched) >= searchEvery {
		f.again, deadlocks = b.searchDeadlocks()
		f.searched, f.version = now, b.version
	}
	failing := b.failure()
	if len(b.dirty) == 0 && !deadlocks && f.loaded == b.loaded && f.failing == failing && f.unread == len(b.unread) &&
		now.Sub(f.sent) < pingEvery {
		return nil
	}
	f.sent, f.loaded, f.failing, f.unread = now, b.loaded, failing, len(b.unread)
	m := newMessage(b, now)
	m.Rows, m.Gone = b.changes()
	return encode("change", m)
}

// broadcast sends a message to all viewers, with mu held. A viewer that is too far behind is dropped.
func (h *hub) broadcast(msg []byte) {
	for v := range h.viewers {
		select {
		case v.messages <- msg:
		default:
			delete(h.viewers, v)
			close(v.messages)
		}
	}
}

// A messageJSON is what viewers are sent: in an event "all" with all rows, in an event "change" with those that
// changed.
type messageJSON struct {
	Now       int64             `json:"now"`
	Loaded    bool              `json:"loaded"`
	Failing   string            `json:"failing,omitempty"`
	Unread    int               `json:"unread,omitempty"`    // names whose queues cannot be read
	UnreadWhy string            `json:"unreadWhy,omitempty"` // of the first of them
	Held      int               `json:"held"`
	Waiting   int               `json:"waiting"`
	Deadlocks [][]stepJSON      `json:"deadlocks"`
	Rows      []json.RawMessage `json:"rows,omitempty"`
	Gone      []string          `json:"gone,omitempty"`
}

// newMessage returns a message with the totals, the failures and the deadlocks of the board.
func newMessage(b *board, now time.Time) messageJSON {
	m := messageJSON{
		Now: now.UnixMilli(), Loaded: b.loaded, Failing: b.failure(), Held: b.held, Waiting: b.waiting,
		Deadlocks: [][]stepJSON{},
	}
	if m.Unread = len(b.unread); m.Unread > 0 {
		m.UnreadWhy = b.unread[slices.Min(slices.Collect(maps.Keys(b.unread)))]
	}
	for _, k := range b.knots {
		m.Deadlocks = append(m.Deadlocks, k.steps())
	}
	return m
}

// snapshot returns the message with everything, with mu held.
func (h *hub) snapshot() []byte {
	m := newMessage(h.board, time.Now())
	m.Rows = h.board.rows()
	return encode("all", m)
}

// encode writes a message as a server-sent event.
func encode(event string, m messageJSON) []byte {
	data, _ := json.Marshal(m) // it has nothing that cannot be encoded
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, data)
}

// failure returns what is wrong with the store, or "".
func (b *board) failure() string {
	if b.err == nil {
		return ""
	}
	return b.err.Error()
}

// refresh reads the time left of queues that are on a viewer's screen. Reads are shared with other viewers.
func (h *hub) refresh(ctx context.Context, names []string) {
	var wait sync.WaitGroup
	for _, name := range names {
		wait.Go(func() { h.refreshOne(ctx, name) })
	}
	wait.Wait()
}

func (h *hub) refreshOne(ctx context.Context, name string) {
	h.mu.Lock()
	if h.stop == nil || h.board.queues[name] == nil {
		h.mu.Unlock()
		return
	}
	r := h.fresh[name]
	if r == nil || time.Since(r.at) > freshFor {
		if len(h.fresh) >= maxFresh {
			maps.DeleteFunc(h.fresh, func(_ string, r *freshRead) bool { return time.Since(r.at) > freshFor })
		}
		r = &freshRead{time.Now(), make(chan struct{})}
		h.fresh[name] = r
		b := h.board
		h.wait.Go(func() { h.inspect(b, name, r) })
	}
	h.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

// maxFresh is how many reads are kept before those that are too old to serve are removed.
const maxFresh = 1000

// inspect reads one queue for the board. It does not depend on the viewer that requested it first.
func (h *hub) inspect(b *board, name string, r *freshRead) {
	defer close(r.done)
	ctx, cancel := context.WithTimeout(h.closed, inspectLimit)
	defer cancel()
	select {
	case h.reads <- struct{}{}:
		defer func() { <-h.reads }()
	case <-ctx.Done():
		return
	}
	start := time.Now()
	q, err := h.client.Inspect(ctx, name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		b.refresh(q, start)
	}
}

// close ends the watch and all viewers, and waits for the goroutines.
func (h *hub) close() {
	h.mu.Lock()
	h.end()
	for v := range h.viewers {
		delete(h.viewers, v)
		close(v.messages)
	}
	h.mu.Unlock()
	h.wait.Wait()
}

// noteBreak notes that this page breaks a claim, so that the timeline can say so.
func (h *hub) noteBreak(name string, token holdfast.Token, by string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != nil { // without a watch there is no timeline
		h.board.broken[claimKey{name, token.Ticket()}] = by
	}
}

// forgetBreak undoes noteBreak.
func (h *hub) forgetBreak(name string, token holdfast.Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.board.broken, claimKey{name, token.Ticket()})
}
