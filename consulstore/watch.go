package consulstore

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/pause"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

const (
	// maxQueries is how many blocking queries a client has in progress for what its claims wait for. Each has its own
	// connection, and by default an agent accepts 200 from one address.
	maxQueries = 32
	// pollPause is the interval at which keys without a blocking query are read.
	pollPause = 250 * time.Millisecond
	// pollBatch is how many of these keys one request reads.
	pollBatch = 64
)

// watches has the watches of one session. Up to maxQueries of them have a blocking query each. The others are polled
// together until a blocking query becomes free.
//
// A blocking query is not cancelled when its watch is removed. Consul would continue it until its wait is over, and
// count its connection for as long: claims that wait only briefly would soon exhaust the connections that an agent
// accepts from their machine. The query ends by itself, or serves the next watch on the same key.
type watches struct {
	consul *consul
	in     *session

	mu      sync.Mutex
	all     map[sessionqueue.Watch]*watch // those that are set, or have a blocking query
	queries int
	polling bool
}

// A watch is a watch that is set, or whose blocking query has not ended yet.
type watch struct {
	sessionqueue.Watch
	seen   state
	polled bool        // it has no blocking query; guarded by the mutex of watches
	unset  atomic.Bool // it was given up, and has a blocking query under way
}

// A state is the number of watched keys that exist, and the index of the last change of any. A key that is created or
// changed raises the index, and a key that is deleted lowers the number: two successive states always differ.
type state struct {
	keys int
	last uint64
}

// stateOf returns the state of these keys.
func stateOf(entries []entry) (s state) {
	s.keys = len(entries)
	for _, e := range entries {
		s.last = max(s.last, e.ModifyIndex)
	}
	return s
}

// readOp returns the operation that reads what is watched.
func readOp(w sessionqueue.Watch) op {
	if isQueue(w.Key) {
		return treeOp(w.Key)
	}
	return getOp(w.Key)
}

// stateIn returns the state of what w watches among these keys.
func (w *watch) stateIn(found map[string]entry) state {
	var watched []entry
	if e, there := found[w.Key]; there {
		watched = append(watched, e)
	}
	if isQueue(w.Key) {
		for key, e := range found {
			if strings.HasPrefix(key, w.Key) {
				watched = append(watched, e)
			}
		}
	}
	return stateOf(watched)
}

// firedBy reports whether w fires in this state.
func (w *watch) firedBy(now state) bool {
	return now.keys == 0 || now != w.seen && (w.Data || isQueue(w.Key))
}

// Watch implements sessionqueue.Server.
func (c *consul) Watch(ctx context.Context, in *session, w sessionqueue.Watch) (there bool, err error) {
	entries, err := c.txn(ctx, readOp(w))
	if err != nil || len(entries) == 0 {
		return false, err
	}
	in.watches.add(w, stateOf(entries))
	return true, nil
}

// Unwatch implements sessionqueue.Server.
func (c *consul) Unwatch(in *session, w sessionqueue.Watch) {
	s := in.watches
	s.mu.Lock()
	defer s.mu.Unlock()
	switch set := s.all[w]; {
	case set == nil:
	case set.polled:
		delete(s.all, w)
	default:
		set.unset.Store(true)
	}
}

// add sets a watch on what was read in the state seen. It starts a blocking query or, if there are maxQueries already,
// polling.
func (s *watches) add(key sessionqueue.Watch, seen state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if there := s.all[key]; there != nil {
		there.unset.Store(false) // it has seen no more than this one
		return
	}
	w := &watch{Watch: key, seen: seen}
	s.all[key] = w
	if s.queries < maxQueries && fitsPath(w.Key) {
		s.queries++
		s.consul.frame.Go(func() { s.followAll(w) })
		return
	}
	w.polled = true
	if !s.polling {
		s.polling = true
		s.consul.frame.Go(s.poll)
	}
}

// remove removes a watch. It reports false if it was not set. The mutex is locked.
func (s *watches) remove(w *watch) (set bool) {
	if s.all[w.Watch] != w {
		return false
	}
	delete(s.all, w.Watch)
	return !w.unset.Load()
}

// fire notifies the store that a watch has fired, unless it was removed.
func (s *watches) fire(w *watch, now state) {
	s.mu.Lock()
	set := s.remove(w)
	s.mu.Unlock()
	if set {
		s.consul.changed(s.in, w.Watch, now.keys == 0 && !isQueue(w.Key))
	}
}

// isOver reports whether a watch was removed, or has fired, and forgets it then. It reports false if it was set again.
func (s *watches) isOver(w *watch) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[w.Watch] == w && !w.unset.Load() && s.in.life.Err() == nil {
		return false
	}
	s.remove(w)
	return true
}

// pathKey matches keys that Consul's HTTP interface accepts in a path. The interface also cleans paths.
var pathKey = regexp.MustCompile(`^[\w.~:/-]+$`)

// fitsPath reports whether the HTTP interface accepts this key unchanged. All of Holdfast's own keys are accepted.
func fitsPath(key string) bool {
	return pathKey.MatchString(key) && path.Clean("/"+key) == "/"+strings.TrimSuffix(key, "/")
}

// followAll sends blocking queries for w until it ends, and then for watches that are polled so far.
func (s *watches) followAll(w *watch) {
	for w != nil {
		if now, fired := s.consul.follow(s.in.life, w); fired {
			s.fire(w, now)
		}
		if s.isOver(w) {
			w = s.next()
		}
	}
}

// next returns a polled watch that can have the blocking query that became free. If there is none, it returns nil and
// reduces the number of queries.
func (s *watches) next() (w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.all {
		if w.polled && fitsPath(w.Key) {
			w.polled = false
			return w
		}
	}
	s.queries--
	return nil
}

// Pauses between two blocking queries, of which the first has failed or found no change. They protect an agent, or a
// proxy before it, that responds at once.
const (
	leastPause = 20 * time.Millisecond
	mostPause  = time.Second
)

// follow sends one blocking query after another until w fires or is removed. It reports whether it has fired, and the
// state then. A change between two queries is found by the second, so that none is lost with a connection.
func (c *consul) follow(life context.Context, w *watch) (now state, fired bool) {
	index, wait := w.seen.last, leastPause
	for life.Err() == nil && !w.unset.Load() {
		entries, next, err := c.queries.block(life, w.Key, isQueue(w.Key), index)
		if now = stateOf(entries); err == nil && w.firedBy(now) {
			return now, true
		}
		if err != nil || next < index { // in the latter case, Consul's data was restored
			next = 0 // the next query does not block
		}
		index = next
		pause.For(life, wait)
		wait = min(2*wait, mostPause)
		if err == nil {
			wait = leastPause
		}
	}
	return now, false
}

// poll reads the watches without a blocking query every pollPause. It returns when there is none left.
func (s *watches) poll() {
	for pause.For(s.in.life, pollPause) {
		s.mu.Lock()
		var polled []*watch
		for _, w := range s.all {
			if w.polled {
				polled = append(polled, w)
			}
		}
		s.polling = len(polled) > 0
		s.mu.Unlock()
		if len(polled) == 0 {
			return
		}
		for batch := range slices.Chunk(polled, pollBatch) {
			s.pollOnce(batch)
		}
	}
}

// pollOnce reads the keys of these watches once, and fires those that have changed. An error is ignored: the next poll
// repeats the read.
func (s *watches) pollOnce(batch []*watch) {
	ops := make([]op, len(batch))
	for i, w := range batch {
		ops[i] = readOp(w.Watch)
	}
	ctx, cancel := context.WithTimeout(s.in.life, s.consul.ttl/2)
	defer cancel()
	entries, err := s.consul.txn(ctx, ops...)
	if err != nil {
		return
	}
	found := map[string]entry{} // a key can be read by itself, and with its queue
	for _, e := range entries {
		found[e.Key] = e
	}
	for _, w := range batch {
		if now := w.stateIn(found); w.firedBy(now) {
			s.fire(w, now)
		}
	}
}
