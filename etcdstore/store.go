package etcdstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/holdfast-go/holdfast/store"
)

// DefaultTTL is the ttl of a session for which none is given.
const DefaultTTL = 30 * time.Second

// MaxTTL is the greatest ttl of a session.
const MaxTTL = 7 * 24 * time.Hour

const (
	askTimeout   = 10 * time.Second // bounds the calls that no ttl bounds
	closeTimeout = time.Second      // bounds giving the session back
)

// A Store is one client's session in etcd. It implements store.Store.
type Store struct {
	client   *clientv3.Client
	owned    bool        // whether the client is ours to close
	kv       clientv3.KV // over the client, but not through a namespace
	leases   etcdserverpb.LeaseClient
	called   string
	about    string // what the session's key says, for people
	keys     keySpace
	prefix   string
	identity string
	ttl      time.Duration // of sessions, as asked for; once there is one, as granted
	notify   atomic.Pointer[func(store.ID, store.Standing)]

	closed atomic.Bool
	life   context.Context // ends with Close
	end    context.CancelFunc
	tasks  sync.WaitGroup

	lookout  lookout
	pulse    pulse
	beats    rounds        // of the session
	openings rounds        // of sessions
	looks    rounds        // at places that are in doubt
	payments rounds        // of debts
	began    chan struct{} // holds a token when a session has begun
	failing  bool          // the last beat failed; belongs to live

	mu         sync.Mutex
	session    *session // nil: none yet, or lost
	places     map[store.ID]*place
	doubts     map[*place]struct{}
	seats      map[string]*seats // by name, of the present session
	debts      map[store.ID]debt
	unwatched  []*place // those whose own key is not watched yet, in the order in which they joined
	watchTimer *time.Timer
	news       []news // to be told when mu is given back
}

// news is a push.
type news struct {
	id       store.ID
	standing store.Standing
}

var _ store.Store = (*Store)(nil)

// push tells something when mu is given back by unlock.
func (s *Store) push(id store.ID, standing store.Standing) {
	s.news = append(s.news, news{id, standing})
}

// unlock gives back mu, and then tells what there is to tell: whoever is told may call.
func (s *Store) unlock() {
	pushes := s.news
	s.news = nil
	s.mu.Unlock()
	for _, n := range pushes {
		s.tell(n.id, n.standing)
	}
}

func (s *Store) tell(id store.ID, standing store.Standing) {
	if fn := s.notify.Load(); fn != nil {
		(*fn)(id, standing)
	}
}

// Notify implements store.Store.
func (s *Store) Notify(fn func(store.ID, store.Standing)) { s.notify.Store(&fn) }

// Abilities implements store.Store.
func (s *Store) Abilities() store.Abilities {
	return store.Abilities{
		Store:      s.called,
		Identity:   s.identity,
		Line:       true,
		Shared:     true,
		MinTTL:     s.ttl,
		MaxTTL:     MaxTTL,
		SessionTTL: s.ttl,
		// A new leader gives every session its whole ttl again, and an election timeout more. With those of a second, which is
		// etcd's default, elections and the look for what has run out add up to this.
		TakeoverTTLs: 2,
		TakeoverPlus: 5 * time.Second,
		ExactWake:    true,
		Tokens:       store.SurvivesRestart | store.SurvivesClockBack | store.SurvivesFailover,
	}
}

// Close implements store.Store. It gives the session back if etcd can be reached, and with it what was not left; otherwise
// that stands until the ttl has passed.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.revoke()
	s.end()
	for _, r := range []*rounds{&s.beats, &s.openings, &s.looks, &s.payments} {
		r.end()
	}
	s.mu.Lock()
	s.watchTimer.Stop()
	s.mu.Unlock()
	s.tasks.Wait()
	if s.owned {
		return s.client.Close()
	}
	return nil
}

// reachable says whether there is a connection.
func (s *Store) reachable() bool {
	return s.client.ActiveConnection().GetState() == connectivity.Ready
}

// check refuses a call that must not be made.
func (s *Store) check(ctx context.Context, name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	return s.alive(ctx)
}

func (s *Store) alive(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// within bounds a call by limit if ctx has no deadline.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return limited(ctx, limit)
}

// limited is a context that ends after a while, and has no deadline. gRPC would send a deadline along with the call, as a
// header that is different each time, and etcd would keep a timer for it.
func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	within, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(limit, cancel)
	return within, func() {
		timer.Stop()
		cancel()
	}
}
