package redlock

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
)

// Ears know whom to wake when a lock is given back, and on which channels to listen for that: one for each key that
// somebody of this process waits for, at the node that he will ask first. A channel is left only when many are idle: who
// has waited for a lock once often does so again.
type ears struct {
	mu    sync.Mutex
	of    map[string]*ear // by key
	idle  map[string]bool // the keys of those with nobody to wake
	tasks []earTask       // by node
}

// An ear is for one key.
type ear struct {
	bids   map[*bid]bool
	wanted uint64 // the nodes where it is to listen
	at     uint64 // the nodes where it is subscribed
}

// An earTask is what is to be done at one node.
type earTask struct {
	fresh []string      // keys to subscribe
	stale []string      // keys to leave
	work  chan struct{} // holds a token when there is something to do
}

// mostIdle is how many channels are listened on with nobody to wake.
const mostIdle = 64

func (e *ears) init(nodes int) {
	e.of, e.idle = map[string]*ear{}, map[string]bool{}
	e.tasks = make([]earTask, nodes)
	for i := range e.tasks {
		e.tasks[i].work = make(chan struct{}, 1)
	}
}

// add lets b hear of releases, if there is an ear for its key.
func (e *ears) add(b *bid) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.of[b.key]; one != nil && !b.gone {
		e.join(one, b)
	}
}

// open lets b hear of releases at a node from now on. It is woken when it does: what was told before is lost on it.
func (e *ears) open(b *bid, node int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b.gone {
		return
	}
	one := e.of[b.key]
	if one == nil {
		one = &ear{bids: map[*bid]bool{}}
		e.of[b.key] = one
	}
	if one.wanted&(1<<node) == 0 {
		one.wanted |= 1 << node
		e.tasks[node].fresh = append(e.tasks[node].fresh, b.key)
		e.toWork(node)
	}
	e.join(one, b)
}

func (e *ears) join(one *ear, b *bid) {
	one.bids[b] = true
	delete(e.idle, b.key)
}

// remove lets b hear nothing any more.
func (e *ears) remove(b *bid) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.of[b.key]
	if one == nil || !one.bids[b] {
		return
	}
	delete(one.bids, b)
	if len(one.bids) > 0 {
		return
	}
	if e.idle[b.key] = true; len(e.idle) > mostIdle {
		e.leaveIdle()
	}
}

// forget is remove for a bid that is dropped: a slower call that learns only now that it lost adds it no more.
func (e *ears) forget(b *bid) {
	e.mu.Lock()
	b.gone = true
	e.mu.Unlock()
	e.remove(b)
}

// leaveIdle lets the nodes know that nobody listens on the idle channels.
func (e *ears) leaveIdle() {
	for key := range e.idle {
		for i := range e.tasks {
			if e.of[key].at&(1<<i) != 0 {
				e.tasks[i].stale = append(e.tasks[i].stale, key)
				e.toWork(i)
			}
		}
		delete(e.of, key)
	}
	clear(e.idle)
}

func (e *ears) toWork(node int) {
	select {
	case e.tasks[node].work <- struct{}{}:
	default:
	}
}

// deaf forgets what was subscribed over a connection that is no more.
func (e *ears) deaf(node int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := &e.tasks[node]
	t.fresh, t.stale = nil, nil
	for key, one := range e.of {
		one.at &^= 1 << node
		if one.wanted&(1<<node) != 0 {
			t.fresh = append(t.fresh, key)
		}
	}
}

// todo takes what is to be done at a node: first the keys to leave, then those to subscribe.
func (e *ears) todo(node int) (stale, fresh []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := &e.tasks[node]
	for _, key := range t.fresh {
		if one := e.of[key]; one != nil && one.at&(1<<node) == 0 {
			fresh = append(fresh, key)
		}
	}
	stale = t.stale
	t.fresh, t.stale = nil, nil
	return stale, fresh
}

// hears notes that keys are subscribed at a node, and gives those who have to look now.
func (e *ears) hears(node int, keys []string) (wake []*bid) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, key := range keys {
		one := e.of[key]
		if one == nil { // it was idle meanwhile
			e.tasks[node].stale = append(e.tasks[node].stale, key)
			e.toWork(node)
			continue
		}
		one.at |= 1 << node
		for b := range one.bids {
			wake = append(wake, b)
		}
	}
	return wake
}

// waiting are those who wait for a key.
func (e *ears) waiting(key string) (bids []*bid) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.of[key]; one != nil {
		for b := range one.bids {
			bids = append(bids, b)
		}
	}
	return bids
}

// connectPushes makes a connection that pushes come over.
func (s *Store) connectPushes(n *node) (*wire, error) {
	return rediswire.Connect(&n.pushes.Tasks, n.client, rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) {
		if key, ok := strings.CutPrefix(m.Channel, freedTopic); ok {
			for _, b := range s.ears.waiting(key) {
				b.push(n.index)
			}
		}
	}})
}

// How long to wait before connecting again for pushes: from the first to the last, doubling.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

// listen stays subscribed at a node to what somebody waits for until the store is closed. Without it, those who wait go on
// by themselves, only slower.
func (s *Store) listen(n *node) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if w, err := n.pushes.Get(s.life); err == nil {
			s.ears.deaf(n.index)
			if s.listenOn(n, w) == nil {
				pause = firstPause
			}
		}
		select {
		case <-time.After(pause):
		case <-s.life.Done():
			return
		}
	}
}

// listenOn subscribes over one connection, as long as that lasts.
func (s *Store) listenOn(n *node, w *wire) error {
	for {
		stale, fresh := s.ears.todo(n.index)
		if len(stale) > 0 {
			if err := s.subscribe(w, w.B().Unsubscribe().Channel(topics(stale)...).Build()); err != nil {
				return err
			}
		}
		if len(fresh) > 0 {
			if err := s.subscribe(w, w.B().Subscribe().Channel(topics(fresh)...).Build()); err != nil {
				return err
			}
			for _, b := range s.ears.hears(n.index, fresh) {
				b.listens()
			}
		}
		select {
		case <-s.ears.tasks[n.index].work:
		case <-w.Dead():
			return nil
		case <-s.life.Done():
			return nil
		}
	}
}

func topics(keys []string) []string {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = freedTopic + key
	}
	return all
}

// subscribe sends a command about subscriptions.
func (s *Store) subscribe(w *wire, command rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(s.life, rediswire.DialTimeout)
	defer cancel()
	return w.Do(ctx, command).Error()
}
