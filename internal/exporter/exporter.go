package exporter

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/pause"
)

// Bounds of the calls to the store.
const (
	probeWithin = 5 * time.Second
	mostReads   = 256 // queues that are read again in one round
	firstPause  = 500 * time.Millisecond
	lastPause   = 15 * time.Second
)

// Other is the prefix of the names that are beyond MaxPrefixes.
const Other = "(other)"

// A Config is the setting of an exporter.
type Config struct {
	// Open opens the store. If it fails it is called again after a pause, unless retry is false.
	Open func(ctx context.Context) (c *holdfast.Client, name string, retry bool, err error)

	// Prefix selects the names that are watched.
	Prefix string

	// Separators are the characters that end the prefix by which a name is counted: the first of them in the name,
	// which belongs to the prefix. A name without one is counted under "". ByName counts each name by itself.
	Separators string
	ByName     bool

	// MaxPrefixes is the number of prefixes that are counted separately. The rest is counted under Other.
	MaxPrefixes int

	// Every is how often the store is probed.
	Every time.Duration

	// Changed is called when the store fails, with the error, and when it is back, with nil.
	Changed func(err error)
}

// An Exporter follows one store.
type Exporter struct {
	Config

	mu       sync.Mutex
	name     string // of the store
	up       bool   // the last probe succeeded
	watched  bool   // the queues are known
	trip     time.Duration
	queues   map[string]*queue
	prefixes map[string]bool // those that have a series, as long as they are in use
}

// A queue is what is known of one name.
type queue struct {
	holdfast.Queue
	read time.Time                // when it was read
	most map[uint64]time.Duration // by ticket: the most time that a claim was seen to have left, which is about its ttl
}

// New returns an exporter, which does nothing before Run.
func New(c Config) *Exporter {
	return &Exporter{Config: c, queues: map[string]*queue{}, prefixes: map[string]bool{}}
}

// Run follows the store until ctx ends, through failures of it. It returns nil then, and otherwise the error of an Open
// that is not to be repeated, or of a store whose queues cannot be listed.
func (e *Exporter) Run(ctx context.Context) error {
	c, err := e.open(ctx)
	if c == nil {
		return err
	}
	defer c.Close() //nolint:errcheck // it held nothing
	ctx, cancel := context.WithCancel(ctx)
	var probing sync.WaitGroup
	probing.Go(func() { e.probeAll(ctx, c) })
	defer probing.Wait()
	defer cancel()
	for batch, failed := range c.Watch(ctx, e.Prefix) {
		err = failed
		e.receive(batch, err)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err // of a store that cannot be watched
}

// open opens the store, and retries until it succeeds.
func (e *Exporter) open(ctx context.Context) (*holdfast.Client, error) {
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		c, name, retry, err := e.Open(ctx)
		switch {
		case ctx.Err() != nil:
			if c != nil {
				c.Close() //nolint:errcheck // it held nothing
			}
			return nil, nil
		case err == nil:
			e.mu.Lock()
			e.name = name
			e.mu.Unlock()
			if wait > firstPause {
				e.Changed(nil)
			}
			return c, nil
		case !retry:
			return nil, err
		}
		if wait == firstPause {
			e.Changed(err)
		}
		pause.For(ctx, wait)
	}
}

// receive applies a report of Watch.
func (e *Exporter) receive(batch []holdfast.Queue, err error) {
	if failed, ok := errors.AsType[*holdfast.Error](err); ok && failed.Name != "" {
		return // one queue cannot be read, and is not counted
	}
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watched = err == nil
	for _, q := range batch {
		e.update(q, now)
	}
}

// update applies a queue as it was read. The mutex is locked.
func (e *Exporter) update(q holdfast.Queue, now time.Time) {
	if len(q.Entries) == 0 {
		delete(e.queues, q.Name)
		return
	}
	known := &queue{Queue: q, read: now, most: map[uint64]time.Duration{}}
	before := e.queues[q.Name]
	for _, entry := range q.Entries {
		ticket := entry.Token.Ticket()
		known.most[ticket] = entry.Left
		if before != nil {
			known.most[ticket] = max(entry.Left, before.most[ticket])
		}
	}
	e.queues[q.Name] = known
}

// probeAll probes the store until ctx ends.
func (e *Exporter) probeAll(ctx context.Context, c *holdfast.Client) {
	for was := true; ctx.Err() == nil; { // it has just been opened, so it is up
		err := e.probe(ctx, c)
		if ctx.Err() != nil {
			return
		}
		up := err == nil
		if up != was {
			e.Changed(err)
		}
		if was = up; up {
			e.readAgain(ctx, c)
		}
		pause.For(ctx, e.Every)
	}
}

// probe reads the queue of a name that is not in use, and notes how long that took.
func (e *Exporter) probe(ctx context.Context, c *holdfast.Client) error {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	began := time.Now()
	_, err := c.Inspect(ctx, "holdfast-exporter-"+strings.ToLower(rand.Text()))
	took := time.Since(began)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.up, e.trip = err == nil, took
	return err
}

// readAgain reads queues again whose holders should have renewed since they were read. Watch does not report a claim
// that was not renewed.
func (e *Exporter) readAgain(ctx context.Context, c *holdfast.Client) {
	now := time.Now()
	e.mu.Lock()
	var due []*queue
	for _, q := range e.queues {
		if slices.ContainsFunc(q.Holders(), func(h holdfast.Entry) bool { return q.left(h, now) < 2*q.ttl(h)/3 }) {
			due = append(due, q)
		}
	}
	e.mu.Unlock()
	slices.SortFunc(due, func(a, b *queue) int { return a.read.Compare(b.read) })
	for _, q := range due[:min(len(due), mostReads)] {
		within, cancel := context.WithTimeout(ctx, probeWithin)
		now, err := c.Inspect(within, q.Name)
		cancel()
		if err != nil {
			return
		}
		e.mu.Lock()
		if e.queues[q.Name] == q { // otherwise Watch was faster
			e.update(now, time.Now())
		}
		e.mu.Unlock()
	}
}

func (q *queue) left(h holdfast.Entry, now time.Time) time.Duration { return h.Left - now.Sub(q.read) }

func (q *queue) ttl(h holdfast.Entry) time.Duration { return q.most[h.Token.Ticket()] }

// prefixOf returns by which prefix a name is counted.
func (e *Exporter) prefixOf(name string) string {
	if e.ByName {
		return name
	}
	i := strings.IndexAny(name, e.Separators)
	if i < 0 {
		return ""
	}
	_, size := utf8.DecodeRuneInString(name[i:])
	return name[:i+size]
}

// A group is what is counted under one prefix.
type group struct {
	prefix                        string
	locks, held, waiting, expires int
	oldestWait, longestHold       time.Duration
}

// A snapshot is all that is reported at one moment.
type snapshot struct {
	store  string
	up     bool
	trip   time.Duration
	names  int
	groups []group // empty while the store is down
	took   time.Duration
}

// snapshot counts what is known.
func (e *Exporter) snapshot() snapshot {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := snapshot{store: e.name, up: e.up && e.watched, trip: e.trip}
	if !s.up {
		return s
	}
	groups := map[string]*group{}
	for _, name := range slices.Sorted(maps.Keys(e.queues)) {
		s.names++
		e.countIn(groups, e.queues[name], now)
	}
	maps.DeleteFunc(e.prefixes, func(prefix string, _ bool) bool { return groups[prefix] == nil })
	for _, prefix := range slices.Sorted(maps.Keys(groups)) {
		s.groups = append(s.groups, *groups[prefix])
	}
	s.took = time.Since(now)
	return s
}

// countIn counts a queue. A prefix that has a series keeps it while it is in use, whatever others come.
func (e *Exporter) countIn(groups map[string]*group, q *queue, now time.Time) {
	prefix := strings.ToValidUTF8(e.prefixOf(q.Name), "?")
	if !e.prefixes[prefix] && len(e.prefixes) >= e.MaxPrefixes {
		prefix = Other
	} else {
		e.prefixes[prefix] = true
	}
	g := groups[prefix]
	if g == nil {
		g = &group{prefix: prefix}
		groups[prefix] = g
	}
	holders := q.Holders()
	g.held += len(holders)
	g.waiting += len(q.Entries) - len(holders)
	if len(holders) > 0 {
		g.locks++
	}
	for _, entry := range q.Entries {
		if !entry.Since.IsZero() {
			age := max(0, now.Sub(entry.Since))
			if entry.Held {
				g.longestHold = max(g.longestHold, age)
			} else {
				g.oldestWait = max(g.oldestWait, age)
			}
		}
		if entry.Held && entry.Left < q.ttl(entry)/2 { // as it was read: it may have been renewed since
			g.expires++
		}
	}
}

// Up reports whether the store can be used.
func (e *Exporter) Up() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.up && e.watched
}
