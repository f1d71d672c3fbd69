package zkstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/line"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// Line implements store.Store.
func (s *Store) Line(ctx context.Context, name string) (store.Line, error) {
	l := store.Line{Name: name}
	call, err := s.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return l, err
	}
	defer call.End()
	l.Places, err = s.places(call.Context, name)
	return l, call.Outcome(err)
}

// places reads a line, and the nodes of its claims. What leaves meanwhile is not shown.
func (s *Store) places(ctx context.Context, name string) ([]store.Place, error) {
	c, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := s.readNow(ctx, c, name)
	if err != nil {
		return nil, err
	}
	held := line.Held(func(yield func(store.Ask) bool) {
		for _, e := range entries {
			if !yield(e.ask) {
				return
			}
		}
	})
	places := make([]store.Place, len(entries))
	indexes := make([]int, len(entries))
	for i := range indexes {
		indexes[i] = i
	}
	err = each(indexes, func(i int) error {
		state := store.Waiting
		if i < held {
			state = store.Held
		}
		p, err := s.place(ctx, c, name, entries[i], state)
		places[i] = p
		return err
	})
	return slices.DeleteFunc(places, func(p store.Place) bool { return p.Ticket == 0 }), err
}

// place shows a node. Times are those of the clients' clocks: ZooKeeper has none. Of claims of this client it is known
// here when they were granted; those of others say it when they have been held for a while. Left is the most that it
// can be. The ticket is 0 if the node has left.
func (s *Store) place(ctx context.Context, c *client, name string, e entry, state store.State) (p store.Place, err error) {
	type node struct {
		data []byte
		stat *zk.Stat
	}
	path := s.layout.path(name) + "/" + e.node
	read, err := call(ctx, c, func(conn *zk.Conn) (node, error) {
		data, stat, err := conn.Get(path)
		return node{data, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return p, nil
	}
	if err != nil {
		return p, pathError(path, err)
	}
	r := decodeRecord(read.data)
	ttl := time.Duration(r.TTL) * time.Millisecond
	p = store.Place{
		Claim: store.Claim{
			ID: e.id, Name: name, Ask: e.ask, Ticket: uint64(read.stat.Czxid), TTL: ttl, //nolint:gosec // positive
			Turn: r.Turn, Owner: r.Owner, Waits: r.Waits,
		},
		State: state, Since: fromMillis(r.Joined), Left: ttl,
	}
	if p.Since.IsZero() {
		p.Since = fromMillis(read.stat.Ctime)
	}
	if state == store.Held && r.Granted != 0 {
		p.Since = fromMillis(r.Granted)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.claims[e.id]; own != nil && own.ticket == p.Ticket && state == store.Held && !own.granted.IsZero() {
		p.Since = own.granted
	}
	return p, nil
}

// Break implements store.Store.
func (s *Store) Break(ctx context.Context, name string, ticket uint64) error {
	call, err := s.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return err
	}
	defer call.End()
	return call.Outcome(s.breakClaim(call.Context, name, ticket))
}

func (s *Store) breakClaim(ctx context.Context, name string, ticket uint64) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	entries, err := s.readNow(ctx, c, name)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var node string
	err = each(entries, func(e entry) error {
		p, err := s.place(ctx, c, name, e, store.Held)
		if p.Ticket == ticket {
			mu.Lock()
			node = e.node
			mu.Unlock()
		}
		return err
	})
	if err != nil {
		return err
	}
	if node == "" {
		return store.ErrNotHeld
	}
	path := s.layout.path(name) + "/" + node
	err = request(ctx, c, func(conn *zk.Conn) error { return conn.Delete(path, -1) })
	if errors.Is(err, zk.ErrNoNode) {
		return store.ErrNotHeld
	}
	return pathError(path, err)
}

// Names implements store.Store.
func (s *Store) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.frame.Names(ctx, func(ctx context.Context) ([]string, error) {
		call := s.frame.Call(ctx, frame.AskTimeout)
		defer call.End()
		names, err := s.names(call.Context, prefix)
		return names, call.Outcome(err)
	})
}

// names finds the lines that have claims. The node of a line stays for a while after the last claim has left. Nodes of
// others that this user may not read are left out.
func (s *Store) names(ctx context.Context, prefix string) (names []string, err error) {
	c, err := s.client(ctx)
	if err == nil {
		err = s.catchUp(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	level := []string{s.layout.top()}
	for len(level) > 0 {
		var deeper []string
		err := each(level, func(path string) error {
			children, err := call(ctx, c, func(conn *zk.Conn) ([]string, error) {
				children, _, err := conn.Children(cmp.Or(path, "/"))
				return children, err
			})
			closed := errors.Is(err, zk.ErrNoAuth) && s.layout.foreign() && path != s.layout.top()
			if err != nil && !errors.Is(err, zk.ErrNoNode) && !closed {
				return pathError(path, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, child := range children {
				deeper = append(deeper, path+"/"+child)
			}
			if name, ok := s.layout.name(path); ok && strings.HasPrefix(name, prefix) && s.hasClaims(children) {
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		level = slices.DeleteFunc(deeper, func(path string) bool { return !s.layout.mayHaveLines(path) })
	}
	return names, nil
}

// hasClaims reports whether these are the nodes of a line, or of one that can't be read.
func (s *Store) hasClaims(children []string) bool {
	return slices.ContainsFunc(children, func(child string) bool {
		_, ok, err := s.layout.parse(child)
		return ok || err != nil
	})
}
