package sessionqueue

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A Config is what a Store has to know of its server.
type Config[S comparable] struct {
	Frame  *frame.Frame
	Server Server[S]
	TTL    time.Duration // of sessions

	// MaxUpdates is how many claims one Confirm may have. 0: any number.
	MaxUpdates int

	// WatchOwn says that a watch is cheap enough to have one on the node of every claim that stands for a while, and
	// that events come in the order in which things have happened. Then it is noticed at once if others delete a
	// claim's node, and a claim holds as soon as what it waits for has left. Otherwise its queue is read before it
	// holds.
	WatchOwn bool

	// RenewApart says that Confirm does not extend the session: Keep has it renewed as well.
	RenewApart bool

	// Foreign says that other programs have nodes in the queues too, and may put them ahead of those that are there.
	Foreign bool

	// WatchTwo has a claim that wants everything watch the last two ahead of it, rather than the last. Then the queue
	// is read when one of the two leaves, while the other holds. When that leaves too, the claim holds at once:
	// otherwise the queue is read then. It costs one watch more for each claim that waits.
	WatchTwo bool
}

// A Store is one client's session, and its claims. It implements store.Store but for Abilities.
type Store[S comparable] struct {
	Config[S]
	Sessions *frame.Sessions[S]

	doubts  *frame.Doubts[*claim[S]]
	deletes *frame.Deletes[S]

	mu      *frame.Mutex
	claims  map[store.ID]*claim[S]
	joining map[store.ID]chan struct{} // is closed when that Join has ended
	watches map[Watch]*watching[S]
}

// New returns a store without a session. [Store.Start] begins its work.
func New[S comparable](config Config[S]) *Store[S] {
	s := &Store[S]{
		Config:  config,
		mu:      frame.NewMutex(config.Frame),
		claims:  map[store.ID]*claim[S]{},
		joining: map[store.ID]chan struct{}{},
		watches: map[Watch]*watching[S]{},
	}
	s.doubts = frame.NewDoubts(s.Frame,
		frame.DoubtsConfig[*claim[S]]{Mutex: s.mu, Limit: s.TTL / 2, Inspect: s.inspectAll})
	s.Sessions = frame.NewSessions(s.Frame, frame.SessionConfig[S]{
		Server: s.Server, Mutex: s.mu, Lost: s.loseClaims, Renewed: s.afterRenewal,
	})
	s.deletes = frame.NewDeletes(s.Frame,
		frame.DeletesConfig[S]{Sessions: s.Sessions, Limit: s.TTL / 2, Delete: s.delete})
	return s
}

// Start has the session be renewed from now on.
func (s *Store[S]) Start() { s.Frame.Go(s.Sessions.Run) }

// Notify implements store.Store.
func (s *Store[S]) Notify(fn func(store.ID, store.Status)) { s.Frame.Notify(fn) }

// Close implements store.Store. It ends the session if the server can be reached, and with it what was not left;
// otherwise that stands until the ttl has passed.
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

// loseClaims forgets everything that went with its session. The mutex is locked. A session that the server may still
// have is ended only when its holders can't believe in it any more.
func (s *Store[S]) loseClaims(lost *frame.Session[S]) {
	s.deletes.Forget()
	clear(s.watches)
	for _, c := range s.claims {
		s.lost(c)
	}
	s.Sessions.EndLost(lost, s.Server.Done(lost.Handle))
}

// afterRenewal cleans up after what has failed, whenever the session has been renewed.
func (s *Store[S]) afterRenewal(err error) {
	if err == nil {
		s.deletes.Retry() // what fails is tried again after the next renewal, which must not wait for it
	}
}

// Reconnected notes that events may have been missed. Those that come now may come in any order: that the node ahead of
// a claim was deleted, before that the claim's own was. So no claim holds before its queue was read.
func (s *Store[S]) Reconnected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		c.noOthers = false
		s.doubt(c)
	}
	s.mu.Push(store.Everyone, store.Status{})
}

// Over notes that the server has a session no more.
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
