package sessionqueue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A Mover is a Server that can move a node from one session to another. A detached claim is a node that was moved to a
// session of its own, which is never renewed: its lease. Its ticket and its position stay.
type Mover[S comparable] interface {
	Server[S]

	// Nodes returns the nodes of a queue with their contents, in any order, no older than the call. If the error is
	// ErrUnreadable or store.ErrFormat, they are those that can be interpreted.
	Nodes(ctx context.Context, in S, name string) ([]Entry, []Node, error)

	// Epoch returns the number of times that requests of a session were made void, or any number that grows with it.
	Epoch(in S) uint64

	// Grant begins a lease. It expires when ttl has passed: not earlier, and not later than a session of that ttl that
	// is not renewed.
	Grant(ctx context.Context, ttl time.Duration) (lease string, err error)

	// Move moves a node and replaces its data, in one step, and returns its new version. It does nothing if the node or
	// the epoch has changed, and returns ErrAgain then. unsure reports that the node may have been moved, or may still
	// be, although there is an error.
	Move(ctx context.Context, in S, m Move) (version uint64, unsure bool, err error)

	// DeleteLeased deletes the node of a detached claim. It reports false if the node no longer has this lease.
	DeleteLeased(ctx context.Context, key, lease string) (deleted bool, err error)

	// EndLease ends a lease if the server can be reached, unless the node with this key has it.
	EndLease(ctx context.Context, key, lease string)
}

// A Move is a request to move a node.
type Move struct {
	Key      string
	Version  uint64 // that the node must have
	Epoch    uint64 // that the session must have
	From, To string // leases; empty: the session
	Demand   store.Demand
	Data     string
}

// A Detacher is a Store whose Server is a Mover. It implements store.Detacher.
//
// Of several requests that move one node at most one is carried out, since each demands the version that was read. And
// one that is in flight when its new ID is left is void: it demands the epoch of the session in which it was sent, and
// Leave begins another. After a Detach whose outcome is not known, a Leave of the earlier ID deletes no node with
// another ID.
type Detacher[S comparable] struct{ *Store[S] }

// Detach implements store.Detacher.
func (s Detacher[S]) Detach(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
	call, err := s.Frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	m := &moving[S]{Claim: &c, store: s.Store, from: c.ID, to: as, detach: true, d: d}
	status, err := m.run(call.Context)
	if err := m.outcome(&call, err); err != nil {
		return store.Status{}, err
	}
	status.Until = call.Until(status.State, d)
	return status, nil
}

// Attach implements store.Detacher.
func (s Detacher[S]) Attach(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
	call, err := s.Frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	s.mu.Lock()
	own := s.known(&c)
	if own != nil {
		c.Demand = own.demand
	}
	s.mu.Unlock()
	if own != nil {
		statuses, err := s.Keep(ctx, []store.Claim{c})
		if err != nil {
			return store.Status{}, err
		}
		return statuses[0], statuses[0].Err
	}
	m := &moving[S]{Claim: &c, store: s.Store, from: from, to: c.ID}
	status, err := m.run(call.Context)
	return status, m.outcome(&call, err)
}

// A transfer is a Detach or an Attach whose request may still be carried out: a call in progress, or one that failed.
type transfer[S comparable] struct {
	frame.Position[S]          // with the new ID
	leases            []string // that the node has had, or may have
}

// A moving is a call of Detach or Attach in progress. It gives the claim with the ID from the ID to.
type moving[S comparable] struct {
	*store.Claim // of the caller
	store        *Store[S]
	from, to     store.ID
	detach       bool
	d            time.Duration // of a Detach

	key    string // of the claim's node, once it was found
	lease  string // that was granted for a Detach; empty: none yet
	used   bool   // the claim has that lease
	unsure bool   // a request was sent, and it is not known whether it was or will be carried out
}

// A candidate is the node that a call may move, or has moved already.
type candidate struct {
	Entry
	Node
	record record
}

// run moves the claim, and returns its status, without Until if it is a Detach. It tries again when the claim, the
// session or its epoch has changed meanwhile.
func (m *moving[S]) run(ctx context.Context) (status store.Status, err error) {
	s := m.store
	for tries := range joinTries {
		ses, err := s.Sessions.Current(ctx)
		if err == nil && !m.detach {
			err = s.Sessions.Freshen(ctx, ses)
		}
		if err != nil {
			return status, err
		}
		status, err = m.attempt(ctx, ses, tries == 0)
		if errors.Is(err, ErrOver) {
			s.Sessions.Over(ses)
		} else if !errors.Is(err, ErrAgain) {
			return status, err
		}
	}
	return status, ErrAgain
}

// outcome returns the error for the caller, and cleans up. If a Detach fails for good, it deletes the claim: callers do
// not use it any more, and need not leave it after a final error.
func (m *moving[S]) outcome(call *frame.Call, err error) error {
	s := m.store
	failure := call.Outcome(err)
	if m.unsure {
		failure = frame.NotFinal(failure) // the caller has to leave what may be there
	}
	var leases []string
	if !m.unsure {
		leases = append(leases, m.lease)
	}
	s.mu.Lock()
	if err == nil { // no request that was sent before can be carried out any more
		leases = append(leases, s.transfers[m.to].leases...)
	}
	if err == nil || store.Final(failure) {
		delete(s.transfers, m.to)
	}
	if c := s.claims[m.from]; c != nil && m.detach {
		c.Unsure = c.Unsure || m.unsure // its node may have been moved, and must not be deleted then
		if store.Final(failure) && s.remove(c) {
			s.deletes.Remember(c.Position)
			s.deletes.Retry()
		}
	}
	s.mu.Unlock()
	leases = slices.DeleteFunc(leases, func(lease string) bool { return m.used && lease == m.lease })
	s.endLeases(m.key, leases...)
	return failure
}

// attempt tries to move the claim once. If the error is ErrAgain or ErrOver, the caller tries again.
func (m *moving[S]) attempt(ctx context.Context, ses *frame.Session[S], first bool) (status store.Status, err error) {
	s := m.store
	n, found, err := m.find(ctx, ses, first)
	if err != nil || !found {
		return status, err
	}
	m.key = n.Key
	if m.detach && n.Entry.ID == m.to { // what is detached already is not shortened
		m.d = max(m.d, time.Duration(n.record.TTL)*time.Millisecond)
	}
	switch {
	case n.Own && !m.detach: // it was attached, and the response was lost
		return m.landed(ses, &n)
	case m.detach && m.lease == "":
		if m.lease, err = s.mover.Grant(ctx, m.d); err != nil {
			return status, err
		}
	}
	move := Move{Key: n.Key, Version: n.Version, From: n.Lease, To: m.lease, Demand: n.Demand, Data: m.data(ses, &n)}
	var left bool
	if move.Epoch, left = m.begin(ses, &n); left {
		return status, nil
	}
	version, unsure, err := s.mover.Move(ctx, ses.Handle, move)
	if m.unsure = unsure; err != nil {
		return status, err
	}
	n.Version, n.Data = version, move.Data
	return m.landed(ses, &n)
}

// find returns the claim that is to be moved, or has been moved already. It reports false if there is none. The first
// time, a Detach of a claim of this client needs no read.
func (m *moving[S]) find(ctx context.Context, ses *frame.Session[S], first bool) (n candidate, found bool, err error) {
	s := m.store
	if m.detach && first {
		if n, found, err = m.known(ses); err != nil || found {
			return n, found, err
		}
	}
	entries, nodes, err := s.mover.Nodes(ctx, ses.Handle, m.Name)
	if err != nil {
		return n, false, err
	}
	for _, id := range []store.ID{m.to, m.from} {
		if at := slices.IndexFunc(entries, func(e Entry) bool { return e.ID == id }); at >= 0 {
			n = candidate{entries[at], nodes[at], decodeRecord(nodes[at].Data)}
			found = m.movable(&n)
			return n, found, nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[m.from]; m.detach && c != nil && c.Name == m.Name {
		s.lost(c)
	}
	return n, false, nil
}

// known returns a claim of this client as it was last written. It reports false if there is none, or if a request whose
// outcome is not known may have changed it. The error is ErrNotHeld if it waits.
func (m *moving[S]) known(ses *frame.Session[S]) (n candidate, found bool, err error) {
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[m.from]
	switch {
	case c == nil || c.Name != m.Name || c.Session != ses || c.Unsure:
		return n, false, nil
	case c.state != store.Held:
		return n, false, store.ErrNotHeld
	}
	n = candidate{Entry{Key: c.Key, ID: c.ID, Demand: c.demand},
		Node{ID: c.ID, Ticket: c.Ticket, Data: c.written, Version: c.version, Own: true}, decodeRecord(c.written)}
	return n, true, nil
}

// movable reports whether the call may move a claim, or has moved it already: a detached one or, for Detach, one of
// this client. One that has left may still be in the queue.
func (m *moving[S]) movable(n *candidate) bool {
	switch {
	case n.Lease != "":
		return m.detach || n.Entry.ID == m.from
	case !m.detach:
		return n.Own && n.Entry.ID == m.to
	}
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.claims[n.Entry.ID]
	return n.Own && c != nil && c.Key == n.Key && c.state == store.Held
}

// begin returns the epoch in which the request is sent. From now on, a Leave of the new ID makes it void. left reports
// that the new ID has been left already.
func (m *moving[S]) begin(ses *frame.Session[S], n *candidate) (epoch uint64, left bool) {
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.left() {
		return 0, true
	}
	t := s.transfers[m.to]
	t.Position, t.leases = m.claim(ses, n).Position, append(t.leases, m.lease, n.Lease)
	s.transfers[m.to] = t
	return s.mover.Epoch(ses.Handle), false
}

// left reports whether the new ID has been left. The mutex is locked.
func (m *moving[S]) left() bool {
	_, pending := m.store.deletes.Pending(m.to)
	return pending || m.store.tombstones[m.to]
}

// claim returns the claim that the node becomes when it is attached.
func (m *moving[S]) claim(ses *frame.Session[S], n *candidate) *claim[S] {
	p := frame.Position[S]{ID: m.to, Name: m.Name, Session: ses, Key: n.Key, Ticket: n.Ticket, Unsure: true}
	c := &claim[S]{
		Position: p, joined: time.UnixMilli(n.record.Joined), demand: n.Demand, state: store.Held, moved: true,
	}
	if n.record.Granted != 0 {
		c.granted = time.UnixMilli(n.record.Granted)
	}
	return c
}

// data returns the data of the node after the move.
func (m *moving[S]) data(ses *frame.Session[S], n *candidate) string {
	if !m.detach {
		return m.claim(ses, n).data(m.Claim)
	}
	r := n.record
	r.ID, r.Detached, r.TTL, r.Waits = m.to, true, m.d.Milliseconds(), nil
	return frame.Encode(Format, r)
}

// landed notes that the claim was moved, and returns its status.
func (m *moving[S]) landed(ses *frame.Session[S], n *candidate) (status store.Status, err error) {
	s := m.store
	m.used = m.detach
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.claims[m.from]; m.detach && c != nil && c.Key == n.Key {
		s.remove(c)
	}
	switch {
	case m.left():
		return status, nil // Leave deletes it
	case m.detach:
		return store.Status{State: store.Held, Ticket: n.Ticket}, nil
	case !s.Sessions.Is(ses):
		return status, ErrAgain // it is gone with its session
	case s.claims[m.to] == nil:
		c := m.claim(ses, n)
		c.Unsure, c.version, c.written = false, n.Version, n.Data
		s.admit(c)
	}
	return ses.Status(store.Held, n.Ticket, 0), nil
}

// endLeases ends those of these leases in the background that the node with this key does not have. No request that may
// still be carried out moves the node to one of them. If that fails, a lease expires by itself. Empty ones are ignored.
func (s *Store[S]) endLeases(key string, leases ...string) {
	leases = slices.DeleteFunc(leases, func(lease string) bool { return lease == "" })
	if len(leases) == 0 {
		return
	}
	s.Frame.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), frame.EndTimeout) // also while the store is closed
		defer cancel()
		for _, lease := range leases {
			s.mover.EndLease(ctx, key, lease)
		}
	})
}

// leavingMove returns the transfer to a claim that is left. moving is false if there is none. A claim
// that never was in a queue gets a tombstone for its ttl (rule 8 of package store): only this client can make a call
// that would give a claim that ID.
func (s *Store[S]) leavingMove(left *store.Claim) (t transfer[S], moving bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left.Ticket == 0 && s.mover != nil {
		s.tombstones[left.ID] = true
		time.AfterFunc(left.TTL, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.tombstones, left.ID)
		})
	}
	t, moving = s.transfers[left.ID]
	return t, moving
}

// leaveMove makes the request of a transfer void, and deletes the claim if it was carried out. The session of the
// transfer may be an earlier one of this client, which the server still has.
func (s *Store[S]) leaveMove(ctx context.Context, t transfer[S]) error {
	err := s.Server.Void(ctx, t.Session.Handle)
	if errors.Is(err, ErrOver) {
		s.Sessions.Over(t.Session)
		err = nil
	}
	if err == nil {
		err = s.deleteByID(ctx, t.Session.Handle, t.Name, t.ID, false)
	}
	if err != nil {
		s.deletes.Later(t.Position)
		return err
	}
	s.mu.Lock()
	delete(s.transfers, t.ID)
	s.mu.Unlock()
	s.deletes.Done(t.Position)
	s.endLeases(t.Key, t.leases...)
	return nil
}

// deleteByID deletes the node of the claim with an ID, if there is one. A detached claim that another client moves
// meanwhile is looked for once more. If only is true, no other claim is deleted than a detached one.
func (s *Store[S]) deleteByID(ctx context.Context, in S, name string, id store.ID, only bool) error {
	for range joinTries {
		entries, nodes, err := s.mover.Nodes(ctx, in, name)
		if err != nil && !unreadable(err) {
			return err
		}
		at := slices.IndexFunc(entries, func(e Entry) bool { return e.ID == id })
		switch {
		case at < 0 || only && nodes[at].Lease == "":
			return err
		case nodes[at].Lease == "":
			return s.Server.Delete(ctx, in, entries[at].Key)
		}
		deleted, err := s.mover.DeleteLeased(ctx, entries[at].Key, nodes[at].Lease)
		if err != nil {
			return err
		}
		if deleted {
			s.endLeases(entries[at].Key, nodes[at].Lease)
			return nil
		}
	}
	return ErrAgain
}
