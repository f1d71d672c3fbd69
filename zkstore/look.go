package zkstore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/line"
	"github.com/holdfast-go/holdfast/store"
)

// readLine reads the claims of a name, in their order.
//
// The server that answers may be behind the others, but it knows all that this session was told. So whoever was ahead
// of a claim of this session, and is not in what it returns, has left for ever: that a claim holds is seen late, and
// never too early.
func (s *Store) readLine(ctx context.Context, c *client, name string) ([]entry, error) {
	path := s.layout.path(name)
	children, err := call(ctx, c, func(conn *zk.Conn) ([]string, error) {
		children, _, err := conn.Children(path)
		return children, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, pathError(path, err)
	}
	return parseLine(s.layout, children)
}

// readNow is readLine for what the servers know now.
func (s *Store) readNow(ctx context.Context, c *client, name string) ([]entry, error) {
	if err := s.catchUp(ctx, c); err != nil {
		return nil, err
	}
	return s.readLine(ctx, c, name)
}

// catchUp has the server that the client is connected with learn what the leader knows.
func (s *Store) catchUp(ctx context.Context, c *client) error {
	return request(ctx, c, func(conn *zk.Conn) error {
		_, err := conn.Sync(c.path)
		return err
	})
}

// evaluate returns where a claim stands that comes after these, and what it waits for:
//   - one that wants everything, for the one before it;
//   - a reader, for the last ahead that readers can't hold beside;
//   - any other, for anything in the line.
func (s *Store) evaluate(name string, ahead []entry, ask store.Ask) (store.State, watch) {
	var prefix line.Prefix
	fits := true
	for i := range ahead {
		fits = fits && prefix.Admit(ahead[i].ask)
	}
	if fits && prefix.Admit(ask) {
		return store.Held, watch{}
	}
	path := s.layout.path(name)
	if ask.Units == ask.Limit {
		return store.Waiting, watch{path: path + "/" + ahead[len(ahead)-1].node}
	}
	for _, e := range slices.Backward(ahead) {
		if ask.Kind == store.Lock && (e.ask.Units == e.ask.Limit || line.Mismatch(e.ask, ask)) {
			return store.Waiting, watch{path: path + "/" + e.node, data: true}
		}
	}
	return store.Waiting, watch{path: path}
}

// lookDeep is how often a line is read again because what blocks a claim has left meanwhile.
const lookDeep = 5

// look finds out where claims of one name stand, and watches what they wait for. The client is told of those that turn
// out to be held or gone.
func (s *Store) look(ctx context.Context, name string, claims []*claim) error {
	for range lookDeep {
		entries, err := s.readLine(ctx, claims[0].session.Handle, name)
		if isOver(err) {
			s.lose(claims[0].session)
			return nil
		}
		if unreadable(err) {
			s.mu.Lock()
			for _, c := range claims {
				c.unknown = err
			}
			s.mu.Unlock()
			return nil
		}
		if err != nil {
			return err
		}
		var again []*claim
		for _, c := range claims {
			settled, err := s.judge(ctx, c, entries)
			if err != nil {
				return err
			}
			if !settled {
				again = append(again, c)
			}
		}
		if claims = again; len(claims) == 0 {
			return nil
		}
	}
	return nil // it changes faster than one can look: the next event tells
}

// judge takes what a line was. It reports false if what c waits for has left meanwhile.
func (s *Store) judge(ctx context.Context, c *claim, entries []entry) (settled bool, err error) {
	s.mu.Lock()
	w, waits := s.judged(c, entries)
	s.mu.Unlock()
	if !waits {
		return true, nil
	}
	there, err := s.watch(ctx, c, w)
	if err != nil || !there {
		return false, err
	}
	if w.data || w.path == s.layout.path(c.name) {
		// What it watches may have changed since the line was read, without having left.
		return s.unchanged(ctx, c, entries)
	}
	return true, nil
}

// judged notes where c stands. It returns what c has to watch if it waits.
func (s *Store) judged(c *claim, entries []entry) (w watch, waits bool) {
	if s.claims[c.id] != c {
		return w, false
	}
	c.unknown = nil
	at := indexOf(entries, c.child())
	if at < 0 {
		s.gone(c)
		return w, false
	}
	if c.state == store.Held {
		return w, false
	}
	state, w := s.evaluate(c.name, entries[:at], c.ask)
	if state == store.Held {
		s.hold(c)
		return w, false
	}
	if c.waitsFor != w {
		s.unwatch(c, c.waitsFor)
	}
	c.waitsFor, c.lastOne = w, at == 1 && !w.data && c.ask.Units == c.ask.Limit && !s.layout.foreign()
	return w, true
}

// unchanged reports whether the line says the same of c as before its watch was set.
func (s *Store) unchanged(ctx context.Context, c *claim, before []entry) (bool, error) {
	now, err := s.readLine(ctx, c.session.Handle, c.name)
	if err != nil {
		return false, err
	}
	return slices.Equal(now, before), nil
}

// unreadable reports whether a line can't be judged because of what it says.
func unreadable(err error) bool { return errors.Is(err, store.ErrFormat) || errors.Is(err, errForeign) }

// doubt has c looked at soon: something happened to its node, or to what blocks it.
func (s *Store) doubt(c *claim) {
	if s.claims[c.id] == c {
		s.doubts[c] = struct{}{}
		s.looks.Ask()
	}
}

// doubtPause is how long after a failure claims in doubt are looked at again.
const doubtPause = 50 * time.Millisecond

// lookAtDoubts looks at all claims in doubt. It runs in one goroutine at a time.
func (s *Store) lookAtDoubts() error {
	s.mu.Lock()
	claims := slices.Collect(maps.Keys(s.doubts))
	clear(s.doubts)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.frame.Life(), s.set.ttl/2)
	defer cancel()
	err := s.lookAll(ctx, claims)
	if err == nil || s.frame.Life().Err() != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range claims {
		if s.claims[c.id] == c {
			s.doubts[c] = struct{}{}
		}
	}
	time.AfterFunc(doubtPause, func() { s.looks.Ask() })
	return err
}

// atOnce is how many requests of one call are under way at the same time.
const atOnce = 32

// each does f for every item, several at the same time, and returns the first error.
func each[T any](items []T, f func(T) error) error {
	if len(items) == 1 {
		return f(items[0])
	}
	var all sync.WaitGroup
	var once sync.Once
	var first error
	free := make(chan struct{}, atOnce)
	for _, item := range items {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			if err := f(item); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	all.Wait()
	return first
}

// lookAll looks at claims, reading each line once.
func (s *Store) lookAll(ctx context.Context, claims []*claim) error {
	type place struct {
		name string
		in   *client
	}
	lines := map[place][]*claim{}
	for _, c := range claims {
		at := place{c.name, c.session.Handle}
		lines[at] = append(lines[at], c)
	}
	return each(slices.Collect(maps.Keys(lines)), func(at place) error { return s.look(ctx, at.name, lines[at]) })
}
