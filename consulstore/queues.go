package consulstore

import (
	"context"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/pause"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A line is the keys of a queue.
type line struct {
	name    string
	entries []entry
}

// split sorts keys by queues. Those that are not Holdfast's are left out.
func (k keySpace) split(found []entry, prefix string) (lines []line) {
	slices.SortFunc(found, func(a, b entry) int { return strings.Compare(a.Key, b.Key) })
	last := ""
	for i := range found {
		key := found[i].Key[:strings.LastIndexByte(found[i].Key, '/')+1]
		if key == last {
			lines[len(lines)-1].entries = append(lines[len(lines)-1].entries, found[i])
			continue
		}
		if name, ok := k.name(key); ok && strings.HasPrefix(name, prefix) {
			lines, last = append(lines, line{name, found[i : i+1 : i+1]}), key
		}
	}
	return lines
}

// Queues implements store.Lister. Consul returns all queues in one response.
func (m *queueMode) Queues(ctx context.Context, prefix string) iter.Seq2[store.Queue, error] {
	return func(yield func(store.Queue, error) bool) {
		err := m.consul.frame.Alive(ctx)
		if err != nil {
			yield(store.Queue{}, err)
			return
		}
		call := m.consul.frame.Call(ctx, frame.AskTimeout)
		defer call.End()
		var found []entry
		query := url.Values{"consistent": {""}, "recurse": {""}}
		if _, err = m.consul.list(call.Context, m.consul.keys.queues+escape(prefix), query, &found); err != nil {
			yield(store.Queue{}, call.Outcome(err))
			return
		}
		for _, l := range m.consul.keys.split(found, prefix) {
			q := store.Queue{Name: l.name}
			claims, nodes, err := decodeNodes(l.entries, "")
			if err == nil {
				q.Entries = m.Show(l.name, claims, nodes)
			}
			if !yield(q, call.Outcome(err)) {
				return
			}
		}
	}
}

// Pauses of Watch between two queries: the least, and how much more for each key that Consul has to send.
const (
	watchPause    = 250 * time.Millisecond
	watchPauseKey = 100 * time.Microsecond
)

// Watch implements store.Watcher: by one blocking query after another, of all keys whose names begin with prefix. It
// has a connection of its own. Consul sends all of these keys when one has changed, so that the pause between two
// queries grows with how many there are.
func (m *queueMode) Watch(ctx context.Context, prefix string, changed func(name string)) error {
	c := m.consul
	if err := c.frame.Alive(ctx); err != nil {
		return err
	}
	life, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.frame.Life(), cancel)()
	queries := newAgent(c.settings, c.dialer, 1)
	defer queries.client.CloseIdleConnections()
	var known map[string]state // nil: changes may have been lost
	index, wait := uint64(0), leastPause
	for life.Err() == nil {
		found, next, err := queries.block(life, c.keys.queues+escape(prefix), true, index)
		switch {
		case err != nil:
			if refused := c.frame.Fault(life, err); life.Err() == nil && store.Final(refused) {
				return refused
			}
			known, next = nil, 0 // the next query does not block
			wait = min(2*wait, mostPause)
		default:
			if next < index { // Consul's data was restored
				known, next = nil, 0
			}
			known = reportChanges(known, c.keys.split(found, prefix), changed)
			wait = watchPause + time.Duration(len(found))*watchPauseKey
		}
		index = next
		pause.For(life, wait)
	}
	return c.frame.Alive(ctx)
}

// reportChanges reports which queues differ from what was known, and returns what is known now.
func reportChanges(known map[string]state, lines []line, changed func(name string)) map[string]state {
	now := make(map[string]state, len(lines))
	for _, l := range lines {
		now[l.name] = stateOf(l.entries)
	}
	if known == nil {
		changed("")
		return now
	}
	for name, s := range now {
		if known[name] != s {
			changed(name)
		}
	}
	for name := range known {
		if _, there := now[name]; !there {
			changed(name)
		}
	}
	return now
}
