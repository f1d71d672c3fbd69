package webui

import (
	"container/list"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// The kinds of events, as the page shows them.
const (
	queued     = "queued"
	granted    = "granted"
	handedOver = "handed over"
	shrunk     = "downgraded"
	released   = "released"
	expired    = "expired"
	lost       = "lost"
	brokenHere = "broken"
	leftQueue  = "left the queue"
	ended      = "ended"
)

// An event is something that happened to a claim, as far as it can be known from the watch, and as the page receives
// it.
type event struct {
	At    int64          `json:"at"` // milliseconds since 1970
	Kind  string         `json:"kind"`
	Token holdfast.Token `json:"token"`
	Owner store.Owner    `json:"owner"`
	Why   string         `json:"why,omitempty"`
}

// How many events are kept: of one name, and of all.
const (
	maxEventsOfName = 100
	maxEvents       = 100_000
)

// A history has the recent events of each name. The names that changed least recently are forgotten first.
type history struct {
	byName map[string]*list.Element
	recent *list.List // of *nameHistory, the most recent first
	total  int
}

type nameHistory struct {
	name   string
	events []event // the oldest first
}

// newHistory returns an empty history.
func newHistory() history { return history{byName: map[string]*list.Element{}, recent: list.New()} }

// add appends an event to the history of a name.
func (h *history) add(name string, e event) {
	at := h.byName[name]
	if at == nil {
		at = h.recent.PushFront(&nameHistory{name: name})
		h.byName[name] = at
	} else {
		h.recent.MoveToFront(at)
	}
	n := at.Value.(*nameHistory)
	if len(n.events) == maxEventsOfName {
		n.events = append(n.events[:0], n.events[1:]...)
		h.total--
	}
	n.events = append(n.events, e)
	for h.total++; h.total > maxEvents; {
		oldest := h.recent.Remove(h.recent.Back()).(*nameHistory)
		delete(h.byName, oldest.name)
		h.total -= len(oldest.events)
	}
}

// of returns the events of a name, the oldest first.
func (h *history) of(name string) []event {
	if at := h.byName[name]; at != nil {
		return at.Value.(*nameHistory).events
	}
	return nil
}
