package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

func init() {
	for _, form := range []string{"", "s", "+unix", "+sentinel", "s+sentinel", "+cluster", "s+cluster"} {
		store.Register("redis"+form, open)
		store.Register("valkey"+form, open)
	}
}

// settings are what options and parameters of the URL set.
type settings struct {
	prefix         string
	guard          time.Duration
	refuseEviction bool
	plain          *plainSettings // nil: a line is kept
	replicaSettings
	inCluster bool // whether the addresses are those of a cluster
	logger    *slog.Logger
	way       rediswire.Way
}

// An Option is a setting of a store.
type Option func(*settings)

// Prefix separates tenants: stores with different prefixes never see each other's names.
func Prefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// Guard lets nothing be granted for so long after the server was started, or has lost its data: as long as the longest
// ttl, it keeps a lease from before from overlapping with one from after. All clients of a server should have the same.
func Guard(d time.Duration) Option { return func(s *settings) { s.guard = d } }

// WaitReplicas lets a grant or a renewal count only when n replicas have acknowledged it within the timeout. Otherwise it
// is an error, and the claim is withdrawn, or not renewed. With as many as there are replicas, a failover to any of them
// loses no grant. All clients of a server should have the same.
func WaitReplicas(n int, timeout time.Duration) Option {
	return func(s *settings) { s.replicaSettings = replicaSettings{n, timeout} }
}

// RefuseEviction refuses a server that may throw away locks when its memory is full. Without it there is a warning. In a
// cluster that goes for each master: calls about the names that it keeps are refused.
func RefuseEviction() Option { return func(s *settings) { s.refuseEviction = true } }

// Logger is where warnings about the server go. The default is slog's.
func Logger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

// New makes a store of a client that stays the caller's: Close does not close it. The store takes two connections of
// its own out of the client's blocking pool, in a cluster for each node.
//
// Of a client that follows Sentinel the store asks every second to which server it leads now, and leaves every other. So
// it leaves a master that was replaced a second after the client has, and not before: rueidis listens to one sentinel and
// believes it. A store that was opened with redis+sentinel:// listens to all of them.
func New(ctx context.Context, client rueidis.Client, options ...Option) (*Store, error) {
	var set settings
	for _, o := range options {
		o(&set)
	}
	addresses := slices.Sorted(maps.Keys(client.Nodes()))
	s := newStore("redis at "+strings.Join(addresses, ","), set)
	if client.Mode() == rueidis.ClientModeCluster {
		s.cluster = s.newCluster(addresses, s.given(client))
	} else {
		s.setHome(client, false)
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if client.Mode() == rueidis.ClientModeSentinel {
		s.follow(func(ctx context.Context) (string, error) {
			return client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
		})
	}
	return s, nil
}

func newStore(called string, set settings) *Store {
	if set.logger == nil {
		set.logger = slog.Default()
	}
	config := frame.Config{Name: called, Drift: frame.Clocks}
	if set.plain != nil {
		config.Name = "plain " + called
		config.Drift.Part = set.plain.drift
	}
	s := &Store{
		settings: set,
		keys:     newKeySpace(set.prefix),
		channel:  strings.ToLower(rand.Text()[:16]),
		reached:  make(chan struct{}, 1),
	}
	config.Explain = s.explain
	s.frame = frame.New(config)
	if set.replicas > 0 {
		s.confirmer = newConfirmer()
	}
	return s
}

// start connects, looks whether the server will do, and begins to listen. Pushes come first: whoever waits can be told
// from his first moment on.
func (s *Store) start(ctx context.Context) error {
	err := s.frame.Alive(ctx)
	if err == nil && s.prefix != "" {
		err = store.CheckName(s.prefix)
	}
	if err == nil {
		err = s.replicaSettings.check()
	}
	if err == nil {
		err = s.checkMode()
	}
	if err == nil {
		err = s.begin(ctx)
	}
	if err != nil {
		s.Close() //nolint:errcheck // it has none
	}
	return err
}

func (s *Store) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, frame.AskTimeout)
	defer cancel()
	if s.cluster != nil {
		return s.beginInCluster(ctx)
	}
	for _, p := range []*plug{&s.home.commands, &s.home.pushes} {
		if _, err := p.Get(ctx); err != nil {
			return s.openFault(ctx, err)
		}
	}
	if err := s.inspect(&s.server, ""); err != nil {
		return err
	}
	if err := s.identify(ctx); err != nil {
		return err
	}
	s.frame.Go(s.listen)
	if s.confirmer != nil {
		s.frame.Go(s.confirm)
	}
	if s.sentinels != nil {
		s.frame.Go(s.sentinels.watch)
	}
	return nil
}

var (
	errUnusable = errors.New("it cannot keep locks")
	errEvicts   = errors.New("when its memory is full it throws away keys, and locks with them, by the policy")
)

// farOff is how far a server's clock may be off before somebody should know. Locks do not depend on it; tickets that
// start anew after a loss of data do.
const farOff = 10 * time.Second

// inspect refuses what will not do, and warns about what is not as it should be. In a cluster it looks at each master that
// is met, now or later, and says which it means.
func (s *Store) inspect(server *Server, node string) error {
	called := s.frame.Name
	if node != "" {
		called += ", node " + node
	}
	if s.refuseEviction && server.evicts {
		return &store.Fault{Store: called, Final: true, Err: fmt.Errorf("%w %s: set maxmemory-policy to noeviction", errEvicts, server.Eviction)}
	}
	if server.evicts {
		s.logger.Warn("holdfast: locks may be lost: "+errEvicts.Error(), "store", called, "policy", server.Eviction)
	}
	if ahead := server.Ahead; ahead.Abs() > farOff {
		s.logger.Warn("holdfast: the server's clock differs from this machine's", "store", called, "ahead", ahead.Round(time.Second))
	}
	return nil
}

// openFault is why a store cannot be opened. What cannot keep locks now will not later, but for a replica: it may be
// about to become the master.
func (s *Store) openFault(ctx context.Context, err error) error {
	if errors.Is(err, errUnusable) {
		failingOver := errors.Is(err, errReplica) && (s.sentinels != nil || s.cluster != nil)
		return &store.Fault{Store: s.frame.Name, Final: !failingOver, Err: err}
	}
	return s.frame.Fault(ctx, err)
}

// beginInCluster looks who keeps what, and connects to all masters. One that is down is no reason to give up.
func (s *Store) beginInCluster(ctx context.Context) error {
	if err := s.cluster.refresh(ctx); err != nil {
		return s.frame.Fault(ctx, err)
	}
	for _, err := range s.cluster.connectAll(ctx) {
		if err != nil && store.Final(s.openFault(ctx, err)) {
			return s.openFault(ctx, err)
		}
	}
	if err := s.identify(ctx); err != nil {
		return err
	}
	if s.confirmer != nil {
		s.frame.Go(s.confirm)
	}
	return nil
}

// setHome makes this the client of the one server.
func (s *Store) setHome(client rueidis.Client, owned bool) {
	s.home = s.newNode("", client, owned)
	s.shelf = s.keys.shelf(s.channel)
}

// identify asks for the identity that the server keeps for this prefix, and makes one up if it has none.
func (s *Store) identify(ctx context.Context) error {
	var id string
	at := s.shelf
	if s.cluster != nil {
		at = s.cluster.shelf(slotOf(s.keys.id))
	}
	_, _, err := s.ask(ctx, frame.AskTimeout, at, nil, func(ctx context.Context, w *wire) rueidis.RedisResult {
		b := w.Client.B()
		answers := w.DoAll(ctx, []rueidis.Completed{
			b.Set().Key(s.keys.id).Value("1 " + rand.Text()).Nx().Build(),
			b.Get().Key(s.keys.id).Build(),
		})
		id, _ = answers[1].ToString()
		if err := answers[0].Error(); err != nil && !rueidis.IsRedisNil(err) {
			return answers[0]
		}
		return answers[1]
	})
	if err != nil {
		return err
	}
	version, id, _ := strings.Cut(id, " ")
	switch {
	case id == "":
		return s.refusedKey("foreign", s.keys.id)
	case version != "1":
		return s.refusedKey("newer", s.keys.id)
	}
	s.identity = id + "/" + s.prefix
	return nil
}

// open connects to the server at a URL.
func open(ctx context.Context, at store.Location) (store.Store, error) {
	options, set, err := parse(at)
	if err != nil {
		return nil, err
	}
	s, err := openWith(ctx, called(at.Scheme, options), options, set)
	if err != nil {
		return nil, err
	}
	if set.plain != nil {
		return newPlain(s), nil
	}
	return s, nil
}

// openWith makes a store with clients of its own.
func openWith(ctx context.Context, called string, options rueidis.ClientOption, set settings) (*Store, error) {
	return newStore(called, set).open(ctx, options)
}

// open makes the clients of a store, and starts it.
func (s *Store) open(ctx context.Context, options rueidis.ClientOption) (*Store, error) {
	// A user without a password is most often a password in the wrong place.
	s.frame.Hide(cmp.Or(options.Password, options.Username))
	s.frame.Hide(cmp.Or(options.Sentinel.Password, options.Sentinel.Username))
	dial := s.way.Dial
	if options.Sentinel.MasterSet != "" {
		s.sentinels = s.newSentinels(options)
		dial = s.sentinels.dial
		options.InitAddress, options.Sentinel = []string{options.Sentinel.MasterSet}, rueidis.SentinelOption{}
	}
	connectTo := func(address string) (rueidis.Client, bool, error) {
		options := options
		options.InitAddress = []string{address}
		client, err := rediswire.NewClient(s.frame.Life(), dialTimeout, options, dial)
		return client, true, err
	}
	if s.inCluster {
		s.cluster = s.newCluster(options.InitAddress, connectTo)
	} else {
		client, owned, err := connectTo(options.InitAddress[0])
		if err != nil {
			s.frame.End()
			return nil, err
		}
		s.setHome(client, owned)
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// parse reads a URL.
func parse(at store.Location) (options rueidis.ClientOption, set settings, err error) {
	if err := at.Allow(append(allowed(at.Scheme), "guard", "eviction", "mode", "retry", "drift", "wait-replicas", "wait-timeout")...); err != nil {
		return options, set, err
	}
	set.prefix = at.Prefix
	if at.Query.Has("guard") {
		if set.guard, err = time.ParseDuration(at.Query.Get("guard")); err != nil || set.guard < 0 {
			return options, set, errors.New("guard is a duration, as in guard=60s")
		}
	}
	if set.replicaSettings, err = parseReplicas(at.Query); err != nil {
		return options, set, err
	}
	if err := set.parseMode(at); err != nil {
		return options, set, err
	}
	switch at.Query.Get("eviction") {
	case "refuse":
		set.refuseEviction = true
	case "", "warn":
	default:
		return options, set, errors.New("eviction is warn or refuse")
	}
	set.inCluster = strings.HasSuffix(at.Scheme, "+cluster")
	err = reach(at, &options)
	return options, set, err
}
