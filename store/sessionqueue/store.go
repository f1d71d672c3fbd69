package sessionqueue

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A Config has what a Store needs to know about its server.
type Config[S comparable] struct {
	Frame  *frame.Frame
	Server Server[S]
	TTL    time.Duration // of sessions

	// MaxUpdates bounds the number of claims in one Confirm. 0 means no limit.
	MaxUpdates int

	// WatchOwn means that watches are cheap enough to watch the node of every claim that is older than a moment, and
	// that events arrive in the order of the changes. Then a deletion of a claim's node by another client is noticed at
	// once, and a claim holds as soon as all that it waits for has left. Otherwise its queue is read before it holds.
	WatchOwn bool

	// RenewApart means that Confirm does not extend the session, so that Keep also renews it.
	RenewApart bool

	// Foreign means that other programs have nodes in the queues too, and may put them ahead of existing ones.
	Foreign bool

	// WatchTwo means that an exclusive claim watches the last two claims ahead of it, rather than the last one. Then
	// the queue is read when one of the two leaves, while the other still holds, and the claim holds at once when that
	// leaves too. Otherwise the queue is read only then. It costs one more watch for each waiting claim.
	WatchTwo bool
}

// A Store is one client's session and its claims. It implements store.Store except for Abilities.
type Store[S comparable] struct {
	Config[S]
	Sessions *frame.Sessions[S]

	doubts  *frame.Doubts[*claim[S]]
	deletes *frame.Deletes[S]

	mu      *frame.Mutex
	claims  map[store.ID]*claim[S]
	joining map[store.ID]chan struct{} // is closed when that Join has ended
	watches map[Watch]*watching[S]

	mover      Mover[S]                 // nil: claims cannot be detached
	transfers  map[store.ID]transfer[S] // by the new IDs
	tombstones map[store.ID]bool        // IDs that were left before any claim had them
}

// New returns a store without a session. [Store.Start] begins its work.
func New[S comparable](config Config[S]) *Store[S] {
	s := &Store[S]{
		Config:  config,
		mu:      frame.NewMutex(config.Frame),
		claims:  map[store.ID]*claim[S]{},
		joining: map[store.ID]chan struct{}{},
		watches: map[Watch]*watching[S]{},

		transfers:  map[store.ID]transfer[S]{},
		tombstones: map[store.ID]bool{},
	}
	s.mover, _ = config.Server.(Mover[S])
	s.doubts = frame.NewDoubts(s.Frame,
		frame.DoubtsConfig[*claim[S]]{Mutex: s.mu, Limit: s.TTL / 2, Inspect: s.inspectAll})
	s.Sessions = frame.NewSessions(s.Frame, frame.SessionConfig[S]{
		Server: s.Server, Mutex: s.mu, Lost: s.loseClaims, Renewed: s.afterRenewal,
	})
	s.deletes = frame.NewDeletes(s.Frame,
		frame.DeletesConfig[S]{Sessions: s.Sessions, Limit: s.TTL / 2, Delete: s.delete})
	return s
}

// Start starts the renewal of the session.
func (s *Store[S]) Start() { s.Frame.Go(s.Sessions.Run) }

// Notify implements store.Store.
func (s *Store[S]) Notify(fn func(store.ID, store.Status)) { s.Frame.Notify(fn) }

// Close implements store.Store. It ends the session if the server can be reached, and with it all claims that have not
// left. Otherwise they stay until the ttl has passed.
func (s *Store[S]) Close() error {
	s.Sessions.Close()
	return nil
}

// Session returns the session, for requests that are not about its claims. It begins one if there is none.
func (s *Store[S]) Session(ctx context.Context) (in S, err error) {
	ses, err := s.Sessions.Current(ctx)
	if err != nil {
		return in, err
	}
	return ses.Handle, nil
}

// loseClaims removes all claims of a session that was lost. The mutex is locked. If the server may still have the
// session, it is ended only when its holders can't believe in it any more.
func (s *Store[S]) loseClaims(lost *frame.Session[S]) {
	s.deletes.Forget()
	clear(s.watches)
	for _, c := range s.claims {
		s.lost(c)
	}
	s.Sessions.EndLost(lost, s.Server.Done(lost.Handle))
}

// afterRenewal retries pending deletes after a renewal that succeeded.
func (s *Store[S]) afterRenewal(err error) {
	if err == nil {
		s.deletes.Retry() // what fails is tried again after the next renewal, which must not wait for it
	}
}

// Reconnected notes that events may have been missed. The next events may arrive in any order: the deletion of a node
// ahead of a claim may be reported before that of the claim's own node. So no claim holds before its queue was read.
func (s *Store[S]) Reconnected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		c.noOthers = false
		s.doubt(c)
	}
	s.mu.Push(store.Everyone, store.Status{})
}

// Over notes that the server no longer has a session.
func (s *Store[S]) Over(in S) { s.Sessions.OverAt(in) }

// Changed notes that a watch of a session has fired, and whether that is because the node was deleted.
func (s *Store[S]) Changed(in S, w Watch, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fired := s.watches[w]
	if fired == nil || !s.Sessions.IsAt(in) {
		return
	}
	delete(s.watches, w)
	for c := range fired.claims {
		switch {
		case deleted && w.Key == c.Key:
			s.lost(c)
		case deleted && slices.Contains(c.waitsFor, w):
			s.freed(c, w)
		default:
			s.doubt(c)
		}
	}
}
