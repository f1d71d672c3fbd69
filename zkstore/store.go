package zkstore

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// DefaultTTL is the ttl of a session for which none is given.
const DefaultTTL = 30 * time.Second

// MaxTTL is the greatest ttl of a session. Servers allow less unless they are told otherwise.
const MaxTTL = 24 * time.Hour

// A Store is one client's session in ZooKeeper. It implements store.Store.
type Store struct {
	frame    *frame.Frame
	set      *settings
	layout   layout
	identity string

	sessions *frame.Sessions[*client]
	looks    *frame.Rounds // at claims in doubt
	deletes  *frame.Rounds // of what is pending

	mu      *frame.Mutex
	claims  map[store.ID]*claim
	joining map[store.ID]chan struct{} // is closed when that Join has ended
	doubts  map[*claim]struct{}
	pending map[store.ID]position // what is to be deleted
	watches map[watch]*watching
}

var _ store.Store = (*Store)(nil)

func newStore(f *frame.Frame, set *settings) *Store {
	s := &Store{
		frame:   f,
		set:     set,
		layout:  set.layout(),
		mu:      frame.NewMutex(f),
		claims:  map[store.ID]*claim{},
		joining: map[store.ID]chan struct{}{},
		doubts:  map[*claim]struct{}{},
		pending: map[store.ID]position{},
		watches: map[watch]*watching{},
	}
	s.looks = frame.NewRounds(f, s.lookAtDoubts)
	s.deletes = frame.NewRounds(f, s.deletePending)
	s.sessions = frame.NewSessions(f, frame.SessionConfig[*client]{
		Server: &sessionServer{set, s}, Mutex: s.mu, Lost: s.loseClaims, Renewed: s.afterRenewal,
	})
	return s
}

// Notify implements store.Store.
func (s *Store) Notify(fn func(store.ID, store.Standing)) { s.frame.Notify(fn) }

// Abilities implements store.Store.
func (s *Store) Abilities() store.Abilities {
	_, ownLine := s.layout.(ownLayout)
	curator, _ := s.layout.(curatorLayout)
	able := store.Abilities{
		Store:      s.frame.Name,
		Identity:   s.identity,
		Line:       true,
		Shared:     ownLine || curator.shared,
		MinTTL:     s.set.ttl,
		MaxTTL:     MaxTTL,
		SessionTTL: s.set.ttl,
		// A new leader gives every session its whole ttl again. The leader rounds up to its tick, and hears of a session's
		// last sign of life within another; the rest is for elections.
		TakeoverTTLs: 2,
		TakeoverPlus: 2*s.set.tick + 5*time.Second,
		ExactWake:    true,
		Tokens:       store.SurvivesRestart | store.SurvivesClockBack | store.SurvivesFailover,
	}
	if !able.Shared {
		able.Instead = "layout=curator-rw has readers, and Holdfast's own layout has all"
	}
	return able
}

// Close implements store.Store. It ends the session if a server can be reached, and with it what was not left;
// otherwise that stands until the ttl has passed.
func (s *Store) Close() error {
	if !s.frame.Shut() {
		return nil
	}
	s.sessions.End()
	s.frame.End()
	s.frame.Wait()
	return nil
}

// client returns the session, for requests that are not about its claims.
func (s *Store) client(ctx context.Context) (*client, error) {
	ses, err := s.sessions.Current(ctx)
	if err != nil {
		return nil, err
	}
	return ses.Handle, nil
}

// loseClaims forgets everything that went with its session, and closes its client. The mutex is locked. A session that
// the servers still have, as one whose node was deleted, is ended only when its holders can't believe in it any more.
func (s *Store) loseClaims(lost *session) {
	clear(s.pending)
	clear(s.watches)
	for _, c := range s.claims {
		s.gone(c)
	}
	s.frame.Go(func() {
		select {
		case <-lost.Handle.life.Done():
		case <-time.After(time.Until(lost.Until())):
		case <-s.frame.Life().Done():
		}
		lost.Handle.close()
	})
}

// lose ends a session that the servers have no more.
func (s *Store) lose(ses *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions.Lose(ses)
}

// afterRenewal cleans up after what has failed, whenever the session has been renewed.
func (s *Store) afterRenewal(err error) {
	if err == nil {
		_ = s.deletes.Ask().Await(s.frame.Life()) // what fails is tried again after the next renewal
	}
}

// reconnected implements events: watches may have missed something.
func (s *Store) reconnected(*client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		s.doubt(c)
	}
	s.mu.Push(store.Everyone, store.Standing{})
}

// sessionExpired implements events.
func (s *Store) sessionExpired(of *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isPresent(of) {
		s.sessions.Lose(s.sessions.Present())
	}
}

// nodeChanged implements events.
func (s *Store) nodeChanged(of *client, e zk.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range firedBy(e) {
		fired := s.watches[w]
		if fired == nil || !s.isPresent(of) {
			continue
		}
		delete(s.watches, w)
		for c := range fired.told {
			s.watchFired(c, w, e.Type)
		}
	}
}

// isPresent reports whether a client is that of the present session.
func (s *Store) isPresent(c *client) bool {
	ses := s.sessions.Present()
	return ses != nil && ses.Handle == c
}
