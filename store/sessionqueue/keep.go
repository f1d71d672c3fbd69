package sessionqueue

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// Keep implements store.Store. One request verifies that the nodes of many claims exist, and writes their changed data.
// It extends the session, or the session is renewed at the same time.
func (s *Store[S]) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	return s.Sessions.Keep(ctx, cs, frame.Keeping{Renew: s.RenewApart, Confirm: s.keep, Report: s.report})
}

// report sets the status of a claim. The mutex is locked.
func (s *Store[S]) report(kept *store.Claim, status *store.Status) {
	switch c := s.known(kept); {
	case c == nil: // it is Gone, if its queue could be judged
	case c.unknown != nil:
		status.Err = c.unknown
	default:
		*status = c.Session.Status(c.state, c.Ticket, -1)
	}
}

// known returns the claim if it has a node, as far as is known, or nil. The mutex is locked.
func (s *Store[S]) known(c *store.Claim) *claim[S] {
	if known := s.claims[c.ID]; known != nil && known.Name == c.Name {
		return known
	}
	return nil
}

// keep confirms claims. For a claim that is unknown here, it notes in statuses if its queue is in a newer format, so
// that its status cannot be determined.
func (s *Store[S]) keep(ctx context.Context, cs []store.Claim, statuses []store.Status) error {
	var known []*claim[S]
	var kept []store.Claim
	s.mu.Lock()
	for i := range cs {
		if c := s.known(&cs[i]); c != nil {
			known, kept = append(known, c), append(kept, cs[i])
		}
	}
	s.mu.Unlock()
	for len(known) > 0 {
		n := s.fitting(known, kept)
		if err := s.confirm(ctx, known[0].Session, known[:n], kept[:n]); err != nil {
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
	in, err := s.Session(ctx)
	if err != nil {
		return err
	}
	return Each(unknown, func(i int) error {
		_, err := s.Server.Queue(ctx, in, cs[i].Name)
		if unreadable(err) {
			statuses[i].Err, err = err, nil
		}
		return err
	})
}

// maxConfirm bounds the bytes of keys and data in one request. Servers accept requests of half a megabyte.
const maxConfirm = 256 << 10

// updateSize bounds the bytes of an update beside its key and data, and those that its data may grow by without Waits.
const updateSize = 256

// waitSize bounds the bytes of one element of Waits in the data, beside its name.
const waitSize = 64

// fitting returns how many of these claims fit into one request. All are of one session.
func (s *Store[S]) fitting(claims []*claim[S], kept []store.Claim) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := 0
	for i, c := range claims {
		size += len(c.Key) + len(c.written) + updateSize
		for _, w := range kept[i].Waits {
			size += len(w.Name) + waitSize
		}
		if n > 0 && (size > maxConfirm || n == s.MaxUpdates || c.Session != claims[0].Session) {
			break
		}
		n++
	}
	return n
}

// confirm determines the status of these claims. kept are the same claims as the caller describes them.
func (s *Store[S]) confirm(ctx context.Context, ses *frame.Session[S], claims []*claim[S], kept []store.Claim) error {
	claims, kept = slices.Clone(claims), slices.Clone(kept)
	for len(claims) > 0 {
		updates := s.updates(claims, kept)
		alive, refused, err := s.Server.Confirm(ctx, ses.Handle, updates)
		switch {
		case errors.Is(err, ErrOver):
			s.Sessions.Over(ses) // its claims went with it
			return nil
		case refused < 0 && err != nil:
			return err
		case refused < 0:
			ses.Extend(alive)
			s.confirmed(claims, updates)
			return s.inspectAll(ctx, s.waiting(claims))
		}
		if again, err := s.refresh(ctx, claims[refused], err); err != nil {
			return err
		} else if !again {
			claims, kept = slices.Delete(claims, refused, refused+1), slices.Delete(kept, refused, refused+1)
		}
	}
	return nil
}

// waiting returns those of these claims that wait, in the same array.
func (s *Store[S]) waiting(claims []*claim[S]) []*claim[S] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(claims, func(c *claim[S]) bool { return s.claims[c.ID] != c || c.state != store.Waiting })
}

// updates returns the new data of nodes. Each update replaces only the data that is known to be there: an old Keep that
// arrives late must not undo a downgrade.
func (s *Store[S]) updates(claims []*claim[S], kept []store.Claim) []Update {
	updates := make([]Update, len(claims))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range claims {
		u := Update{Name: c.Name, ID: c.ID, Key: c.Key, Demand: c.demand, Version: c.version, Data: c.data(&kept[i])}
		if kept[i].Units < c.demand.Units && s.claims[c.ID] == c {
			u.Units, u.Demand.Units = kept[i].Units, kept[i].Units
			if marker := s.Server.Marker(u); marker != "" && !slices.Contains(c.Markers, marker) {
				c.Markers = append(slices.Clone(c.Markers), marker) // the response may be lost
			}
		}
		u.Write = u.Data != c.written || u.Units > 0
		updates[i] = u
	}
	return updates
}

// confirmed notes what was written.
func (s *Store[S]) confirmed(claims []*claim[S], updates []Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, u := range updates {
		c := claims[i]
		if c.state == store.Held {
			c.unknown = nil // its node is there, whatever its queue says
		}
		if u.Write {
			c.version, c.written = max(c.version, u.Version), u.Data
			s.shrink(c, u.Units)
		}
	}
}

// shrink sets the units of a claim if they are fewer than before.
func (s *Store[S]) shrink(c *claim[S], units int32) {
	if units == 0 || units >= c.demand.Units {
		return
	}
	c.demand.Units = units
	s.waitFor(c, nil, false) // others may block it now
}

// refresh reads the node of a claim that Confirm has refused. If the node does not exist, the claim is lost. If reason
// is not nil, it is why the claim cannot be confirmed. Otherwise refresh reports true: the claim is to be confirmed
// again, with what was read.
func (s *Store[S]) refresh(ctx context.Context, c *claim[S], reason error) (again bool, err error) {
	node, err := s.Server.Read(ctx, c.Session.Handle, c.Key)
	if err != nil {
		return false, err
	}
	entries, err := s.Server.Queue(ctx, c.Session.Handle, c.Name)
	if err != nil && !unreadable(err) {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if node.Ticket == 0 || node.ID != c.ID && node.ID != (store.ID{}) { // or it was detached
		s.lost(c)
		return false, nil
	}
	if unreadable(err) && c.version == node.Version {
		reason = err
	}
	if reason != nil {
		c.unknown = reason
		return false, nil
	}
	c.version, c.written = node.Version, node.Data
	if at := indexOf(entries, c.Key); at >= 0 { // a Keep that was thought lost may have shrunk it
		s.shrink(c, entries[at].Demand.Units)
	}
	return s.claims[c.ID] == c, nil
}
