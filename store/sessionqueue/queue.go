package sessionqueue

import (
	"context"
	"iter"
	"slices"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/grant"
)

// Queue implements store.Store.
func (s *Store[S]) Queue(ctx context.Context, name string) (store.Queue, error) {
	l := store.Queue{Name: name}
	call, err := s.Frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return l, err
	}
	defer call.End()
	shown, err := s.shownEntries(call.Context, name)
	for _, p := range shown {
		l.Entries = append(l.Entries, p.Entry)
	}
	return l, call.Outcome(err)
}

// A shownEntry is an entry with the key of its node, and the lease if it is detached.
type shownEntry struct {
	store.Entry
	key, lease string
}

// shownEntries reads a queue and the data of its nodes. It omits nodes that are deleted meanwhile.
func (s *Store[S]) shownEntries(ctx context.Context, name string) ([]shownEntry, error) {
	in, err := s.Session(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := s.queueNow(ctx, in, name)
	if err != nil {
		return nil, err
	}
	nodes := make([]Node, len(entries))
	indexes := make([]int, len(entries))
	for i := range entries {
		indexes[i] = i
	}
	err = Each(indexes, func(i int) error {
		node, err := s.Server.Read(ctx, in, entries[i].Key)
		nodes[i] = node
		return err
	})
	places := make([]shownEntry, len(entries))
	for i, p := range s.Show(name, entries, nodes) {
		places[i] = shownEntry{p, entries[i].Key, nodes[i].Lease}
	}
	return slices.DeleteFunc(places, func(p shownEntry) bool { return p.Ticket == 0 }), err
}

// Show returns the entries of a queue, from the data of its nodes.
func (s *Store[S]) Show(name string, entries []Entry, nodes []Node) []store.Entry {
	places := make([]store.Entry, len(entries))
	var prefix grant.Prefix
	state := store.Held
	for i, e := range entries {
		if state == store.Held && !prefix.Admit(e.Demand) {
			state = store.Waiting
		}
		places[i] = store.Entry{Claim: store.Claim{ID: e.ID, Name: name, Demand: e.Demand}, State: state}
		s.show(&places[i], nodes[i])
	}
	return places
}

// show sets an entry from the data of its node. The time of a grant is known here for claims of this client; claims of
// other clients have it in their data after they were held for a while.
func (s *Store[S]) show(p *store.Entry, node Node) {
	p.Ticket, p.Since = node.Ticket, node.Made
	r := decodeRecord(node.Data)
	r.Show(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.claims[p.ID]; own != nil && own.Ticket == p.Ticket && p.State == store.Held && !own.granted.IsZero() {
		p.Since = own.granted
	}
}

// Break implements store.Store.
func (s *Store[S]) Break(ctx context.Context, name string, ticket uint64) error {
	call, err := s.Frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return err
	}
	defer call.End()
	places, err := s.shownEntries(call.Context, name)
	if err != nil {
		return call.Outcome(err)
	}
	at := slices.IndexFunc(places, func(p shownEntry) bool { return p.Ticket == ticket })
	if at < 0 {
		return store.ErrNotHeld
	}
	in, err := s.Session(call.Context)
	if err == nil {
		err = s.Server.Delete(call.Context, in, places[at].key)
	}
	if err == nil {
		s.endLeases(places[at].key, places[at].lease)
	}
	return call.Outcome(err)
}

// Names implements store.Store.
func (s *Store[S]) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.Frame.Names(ctx, func(ctx context.Context) ([]string, error) {
		call := s.Frame.Call(ctx, frame.AskTimeout)
		defer call.End()
		in, err := s.Session(call.Context)
		if err == nil {
			err = s.Server.CatchUp(call.Context, in)
		}
		var names []string
		if err == nil {
			names, err = s.Server.Names(call.Context, in, prefix)
		}
		return names, call.Outcome(err)
	})
}
