package etcdstore

import (
	"time"

	"go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/sessionserver"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// DefaultTTL is the ttl of a session if none is set.
const DefaultTTL = 30 * time.Second

// MaxTTL is the greatest ttl of a session.
const MaxTTL = 7 * 24 * time.Hour

// A Store is one client's session in etcd. It implements store.Store and store.Detacher.
type Store struct {
	frame    *frame.Frame
	etcd     *cluster
	owned    bool // the client is the store's to close
	keys     keySpace
	identity string
	ttl      time.Duration // of sessions, as granted

	sessions *frame.Sessions[*lease]
	watcher  watcher
	doubts   *frame.Doubts[*claim]
	deletes  *frame.Deletes[*lease]

	mu     *frame.Mutex
	claims map[store.ID]*claim
	slots  keySlots // of the present session

	transfers  map[store.ID]transfer // of the present session, by the new IDs
	tombstones map[store.ID]bool     // IDs that were left before any claim had them
}

var _ store.Store = (*Store)(nil)

func newStore(f *frame.Frame, client *clientv3.Client, owned bool, set settings) *Store {
	s := &Store{
		frame:  f,
		etcd:   newCluster(client),
		owned:  owned,
		keys:   newKeySpace(set.prefix),
		mu:     frame.NewMutex(f),
		claims: map[store.ID]*claim{},
		slots:  keySlots{},

		transfers:  map[store.ID]transfer{},
		tombstones: map[store.ID]bool{},
	}
	s.doubts = frame.NewDoubts(f, frame.DoubtsConfig[*claim]{Mutex: s.mu, Inspect: s.look})
	s.watcher = newWatcher(f, client.ActiveConnection())
	s.sessions = frame.NewSessions(f, frame.SessionConfig[*lease]{
		Server: newLessor(f.Life(), s.etcd, s.keys, set.ttl), Mutex: s.mu, Lost: s.loseClaims, Renewed: s.afterRenewal,
	})
	s.deletes = frame.NewDeletes(f, frame.DeletesConfig[*lease]{
		Sessions: s.sessions, Delete: s.delete, Deleted: s.releaseKey,
	})
	return s
}

// Notify implements store.Store.
func (s *Store) Notify(fn func(store.ID, store.Status)) { s.frame.Notify(fn) }

// Abilities implements store.Store.
func (s *Store) Abilities() store.Abilities {
	able := sessionserver.Abilities(s.frame, s.identity, s.ttl, MaxTTL)
	able.Queue, able.Shared, able.Detach = true, true, true
	// A new leader gives every session its whole ttl again, and an election timeout more. With election timeouts of a
	// second, which is etcd's default, elections and the check for expired leases add up to this.
	able.TakeoverTTLs, able.TakeoverPlus = 2, 5*time.Second
	return able
}

// Close implements store.Store. It ends the session if etcd can be reached, and with it all claims that have not left.
// Otherwise they stay until the ttl has passed.
func (s *Store) Close() error {
	if s.sessions.Close() && s.owned {
		return s.etcd.client.Close()
	}
	return nil
}

// loseClaims removes all claims of a session that was lost. The mutex is locked.
func (s *Store) loseClaims(*session) {
	s.deletes.Forget()
	clear(s.slots)
	clear(s.transfers)
	for _, c := range s.claims {
		s.gone(c)
	}
}

// afterRenewal cleans up after what has failed, whenever the session has been renewed.
func (s *Store) afterRenewal(err error) {
	if err != nil {
		s.etcd.client.ActiveConnection().ResetConnectBackoff() // don't wait for a server that is back
		return
	}
	s.watcher.checkAlive()
	s.deletes.Retry() // what fails is tried again after the next renewal
}
