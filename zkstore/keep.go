package zkstore

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
)

// Keep implements store.Store. One transaction demands that the nodes of many claims are there, writes what has changed
// of them, and extends the session: only a majority can do it, so that what it says is no older than its call.
func (s *Store) Keep(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
	limit, err := s.frame.CheckAll(ctx, cs)
	if err != nil || len(cs) == 0 {
		return nil, err
	}
	call := s.frame.Call(ctx, limit)
	defer call.End()
	standings := make([]store.Standing, len(cs))
	if err := s.keep(call.Context, cs, standings); err != nil {
		return nil, call.Outcome(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range cs {
		switch c := s.known(&cs[i]); {
		case c == nil: // it is Gone, if its line could be judged
		case c.unknown != nil:
			standings[i].Err = c.unknown
		default:
			standings[i] = standingIn(c.session, c.state, c.ticket, -1)
		}
		if err := standings[i].Err; err != nil {
			standings[i] = store.Standing{Err: s.frame.Fault(ctx, err)}
		}
	}
	return standings, nil
}

// known returns a claim that stands, as far as is known, or nil. The mutex is locked.
func (s *Store) known(c *store.Claim) *claim {
	if known := s.claims[c.ID]; known != nil && known.name == c.Name {
		return known
	}
	return nil
}

// keep confirms claims. Of those that are not known here, or not any more, it notes in standings why they can't be
// judged: their line is in a newer format.
func (s *Store) keep(ctx context.Context, cs []store.Claim, standings []store.Standing) error {
	var known []*claim
	var kept []store.Claim
	s.mu.Lock()
	for i := range cs {
		if c := s.known(&cs[i]); c != nil {
			known, kept = append(known, c), append(kept, cs[i])
		}
	}
	s.mu.Unlock()
	for len(known) > 0 {
		n := fitting(known)
		if err := s.confirm(ctx, known[0].session, known[:n], kept[:n]); err != nil {
			return err
		}
		known, kept = known[n:], kept[n:]
	}
	var unknown []int
	s.mu.Lock()
	for i := range cs {
		if s.known(&cs[i]) == nil {
			unknown = append(unknown, i)
		}
	}
	s.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	return each(unknown, func(i int) error {
		_, err := s.readLine(ctx, c, cs[i].Name)
		if unreadable(err) {
			standings[i].Err, err = err, nil
		}
		return err
	})
}

// maxMulti is how many bytes of paths and data one transaction has. Servers take requests of a megabyte.
const maxMulti = 256 << 10

// fitting is how many of these go into one transaction. They are of one session.
func fitting(claims []*claim) (n int) {
	size := 0
	for _, c := range claims {
		if size += len(c.node) + len(c.written) + opSize; n > 0 && (size > maxMulti || c.session != claims[0].session) {
			break
		}
		n++
	}
	return n
}

// opSize is what an operation takes beside path and data, and what data may grow by.
const opSize = 256

// confirm finds out which of these claims stand, and where. kept are the same claims as the caller describes them.
func (s *Store) confirm(ctx context.Context, ses *session, claims []*claim, kept []store.Claim) error {
	claims, kept = slices.Clone(claims), slices.Clone(kept)
	for cuts := 0; len(claims) > 0; {
		t := s.confirmation(ses, claims, kept)
		_, alive, err := ses.Handle.multi(ctx, t.ops...)
		if err == nil {
			ses.Extend(alive)
			s.confirmed(t.updates)
			break
		}
		op, refused := errors.AsType[*failedOp](err)
		switch {
		case isOver(err), refused && op.index == 0:
			s.lose(ses) // its claims went with it
			return nil
		case !refused && (!isCut(err) || cuts == callTries):
			return err
		case !refused:
			cuts++
			continue
		}
		i := t.claimOf[op.index]
		if stands, err := s.refresh(ctx, claims[i]); err != nil {
			return err
		} else if !stands {
			claims, kept = slices.Delete(claims, i, i+1), slices.Delete(kept, i, i+1)
		}
	}
	var waiting []*claim
	s.mu.Lock()
	for _, c := range claims {
		if s.claims[c.id] == c && c.state == store.Waiting {
			waiting = append(waiting, c)
		}
	}
	s.mu.Unlock()
	return s.lookAll(ctx, waiting)
}

// A confirmation is the transaction that confirms claims.
type confirmation struct {
	ops     []any
	claimOf []int // the claim that each operation is about
	updates []update
}

// An update is what the node of a claim is to say from now on.
type update struct {
	*claim
	data    string
	version int32 // of the data that it is written over
	units   int32
	marker  string // the path of the node that says that it has shrunk; empty: it has not
}

// confirmation makes a transaction. Each update is written over what is known to be there and nothing else: a Keep that
// was sent long ago and lands late must not undo a downgrade.
func (s *Store) confirmation(ses *session, claims []*claim, kept []store.Claim) confirmation {
	t := confirmation{ops: []any{&zk.CheckVersionRequest{Path: ses.Handle.path, Version: -1}}, claimOf: []int{-1}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range claims {
		add := func(op any) { t.ops, t.claimOf = append(t.ops, op), append(t.claimOf, i) }
		r := c.record(&kept[i])
		u := update{claim: c, data: r.encode(), version: c.version, units: min(c.ask.Units, kept[i].Units)}
		if u.units < c.ask.Units {
			if child := s.layout.shrunk(c.id, u.units); child != "" {
				u.marker = s.layout.path(c.name) + "/" + child
				add(&zk.CreateRequest{Path: u.marker, Acl: s.set.acl(), Flags: zk.FlagEphemeral})
			}
		}
		if u.data == c.written && u.marker == "" {
			add(&zk.CheckVersionRequest{Path: c.node, Version: c.version})
			continue
		}
		add(&zk.SetDataRequest{Path: c.node, Data: []byte(u.data), Version: c.version})
		t.updates = append(t.updates, u)
	}
	return t
}

// confirmed notes what was written.
func (s *Store) confirmed(updates []update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range updates {
		if u.claim.version == u.version {
			u.claim.version, u.written = u.version+1, u.data
		}
		if u.marker != "" {
			s.shrink(u.claim, u.units, u.marker)
		}
	}
}

// shrink notes that a claim has fewer units.
func (s *Store) shrink(c *claim, units int32, marker string) {
	if !slices.Contains(c.markers, marker) {
		c.markers = append(slices.Clone(c.markers), marker)
	}
	if units < c.ask.Units {
		c.ask.Units = units
		s.unwatch(c, c.waitsFor) // others may block it now
		c.waitsFor, c.lastOne = watch{}, false
	}
}

// refresh reads a claim's node, which is not as it was known to be. It reports whether it stands.
func (s *Store) refresh(ctx context.Context, c *claim) (stands bool, err error) {
	type node struct {
		data []byte
		stat *zk.Stat
	}
	read, err := call(ctx, c.session.Handle, func(conn *zk.Conn) (node, error) {
		data, stat, err := conn.Get(c.node)
		return node{data, stat}, err
	})
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return false, err
	}
	var entries []entry
	if err == nil {
		entries, err = s.readLine(ctx, c.session.Handle, c.name)
		if err != nil && !unreadable(err) {
			return false, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if read.stat == nil {
		s.gone(c)
		return false, nil
	}
	c.version, c.written = read.stat.Version, string(read.data)
	if at := indexOf(entries, c.child()); at >= 0 && entries[at].ask.Units < c.ask.Units { // a Keep that was thought lost
		units := entries[at].ask.Units
		s.shrink(c, units, s.layout.path(c.name)+"/"+s.layout.shrunk(c.id, units))
	}
	return s.claims[c.id] == c, nil
}
