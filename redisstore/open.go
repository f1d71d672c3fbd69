package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/tlsurl"
	"github.com/holdfast-go/holdfast/store"
)

func init() {
	store.Register("redis", open)
	store.Register("rediss", open)
	store.Register("redis+unix", open)
}

// settings are what options and parameters of the URL set.
type settings struct {
	prefix         string
	guard          time.Duration
	refuseEviction bool
	logger         *slog.Logger
}

// An Option is a setting of a store.
type Option func(*settings)

// Prefix separates tenants: stores with different prefixes never see each other's names.
func Prefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// Guard lets nothing be granted for so long after the server was started, or has lost its data: as long as the longest
// ttl, it keeps a lease from before from overlapping with one from after. All clients of a server should have the same.
func Guard(d time.Duration) Option { return func(s *settings) { s.guard = d } }

// RefuseEviction refuses a server that may throw away locks when its memory is full. Without it there is a warning.
func RefuseEviction() Option { return func(s *settings) { s.refuseEviction = true } }

// Logger is where warnings about the server go. The default is slog's.
func Logger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

// New makes a store of a client that stays the caller's: Close does not close it. The store takes two connections of
// its own out of the client's blocking pool. The client must be for one server, not for a cluster.
func New(ctx context.Context, client rueidis.Client, options ...Option) (*Store, error) {
	var set settings
	for _, o := range options {
		o(&set)
	}
	addresses := slices.Sorted(maps.Keys(client.Nodes()))
	s := newStore("redis at "+strings.Join(addresses, ","), set)
	s.client = client
	if client.Mode() == rueidis.ClientModeCluster {
		s.end()
		return nil, &store.Fault{Store: s.called, Final: true, Err: errCluster}
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func newStore(called string, set settings) *Store {
	if set.logger == nil {
		set.logger = slog.Default()
	}
	s := &Store{
		settings: set,
		called:   called,
		keys:     newKeySpace(set.prefix),
		channel:  strings.ToLower(rand.Text()[:16]),
		reached:  make(chan struct{}, 1),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.commands.connect = s.connectCommands
	s.pushes.connect = s.connectPushes
	return s
}

// start connects, looks whether the server will do, and begins to listen. Pushes come first: whoever waits can be told
// from his first moment on.
func (s *Store) start(ctx context.Context) error {
	err := s.alive(ctx)
	if err == nil && s.prefix != "" {
		err = store.CheckName(s.prefix)
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
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, p := range []*plug{&s.commands, &s.pushes} {
		if _, err := p.get(ctx); err != nil {
			if errors.Is(err, errUnusable) {
				return &store.Fault{Store: s.called, Final: true, Err: err}
			}
			return s.fault(ctx, err)
		}
	}
	if s.refuseEviction && s.server.evicts() {
		return &store.Fault{Store: s.called, Final: true, Err: fmt.Errorf("%w %s: set maxmemory-policy to noeviction", errEvicts, s.server.Eviction)}
	}
	s.inspect()
	if err := s.identify(ctx); err != nil {
		return err
	}
	s.tasks.Go(s.listen)
	return nil
}

var (
	errUnusable = errors.New("it cannot keep locks")
	errEvicts   = errors.New("when its memory is full it throws away keys, and locks with them, by the policy")
)

// farOff is how far a server's clock may be off before somebody should know. Locks do not depend on it; tickets that
// start anew after a loss of data do.
const farOff = 10 * time.Second

// inspect warns about what is not as it should be.
func (s *Store) inspect() {
	if s.server.evicts() {
		s.logger.Warn("holdfast: locks may be lost: "+errEvicts.Error(), "store", s.called, "policy", s.server.Eviction)
	}
	if ahead := s.server.Ahead; ahead.Abs() > farOff {
		s.logger.Warn("holdfast: the server's clock differs from this machine's", "store", s.called, "ahead", ahead.Round(time.Second))
	}
}

// connectCommands makes a connection for commands.
func (s *Store) connectCommands() (*wire, error) {
	w, server, err := s.commands.newWire(s.client, rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	if err != nil {
		return nil, err
	}
	if err := server.usable(); err != nil {
		err = fmt.Errorf("%w: %w", errUnusable, err)
		w.end(err)
		return nil, err
	}
	if s.server.RunID == "" {
		s.server = *server // before anybody else can look
	}
	err = s.arrive(w)
	if err == nil { // a script that cannot publish fails after it has written
		ctx, cancel := context.WithTimeout(s.life, dialTimeout)
		err = w.do(ctx, w.client.B().Publish().Channel(s.keys.pushes+s.channel).Message("").Build()).Error()
		cancel()
	}
	if err != nil {
		w.end(err)
		return nil, err
	}
	if p := s.pushes.current.Load(); p != nil && p.run != w.run {
		p.end(errCut) // it leads to another server, or another run: nothing comes over it any more
	}
	select {
	case s.reached <- struct{}{}:
	default:
	}
	return w, nil
}

// arrive looks whether this run of the server has raised the mark yet. It comes before the first Join over this
// connection, and no connection outlives the server: so it is enough. A guard begins here too, and not only when
// somebody first asks for a lock.
func (s *Store) arrive(w *wire) error {
	ctx, cancel := context.WithTimeout(s.life, dialTimeout)
	defer cancel()
	said, err := keepScript.run(ctx, w, []string{s.keys.mark, s.keys.run}, []string{w.run, millis(s.guard)}).AsStrSlice()
	switch {
	case err != nil:
		return err
	case len(said) != 1:
		return fmt.Errorf("%w: %q", errShape, said)
	case said[0] != "ok":
		return s.refusedKey(said[0], s.keys.run)
	}
	return nil
}

// identify asks for the identity that the server keeps for this prefix, and makes one up if it has none.
func (s *Store) identify(ctx context.Context) error {
	var id string
	_, _, err := s.ask(ctx, askTimeout, func(ctx context.Context, w *wire) rueidis.RedisResult {
		b := w.client.B()
		answers := w.doAll(ctx, []rueidis.Completed{
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
	s, err := connect(ctx, "redis at "+options.InitAddress[0], options, set)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// connect makes a store with a client of its own.
func connect(ctx context.Context, called string, options rueidis.ClientOption, set settings) (s *Store, err error) {
	s = newStore(called, set)
	s.owned, s.secret = true, options.Password
	if s.client, err = s.newClient(options); err != nil {
		s.end()
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// parse reads a URL.
func parse(at store.Location) (options rueidis.ClientOption, set settings, err error) {
	allowed := []string{"guard", "eviction"}
	switch at.Scheme {
	case "rediss":
		allowed = append(allowed, tlsurl.Parameters...)
	case "redis+unix":
		allowed = append(allowed, "db")
	}
	if err := at.Allow(allowed...); err != nil {
		return options, set, err
	}
	set.prefix = at.Prefix
	if at.Query.Has("guard") {
		if set.guard, err = time.ParseDuration(at.Query.Get("guard")); err != nil || set.guard < 0 {
			return options, set, errors.New("guard is a duration, as in guard=60s")
		}
	}
	switch at.Query.Get("eviction") {
	case "refuse":
		set.refuseEviction = true
	case "", "warn":
	default:
		return options, set, errors.New("eviction is warn or refuse")
	}
	if at.User != nil {
		options.Username = at.User.Username()
		options.Password, _ = at.User.Password()
	}
	db := strings.Trim(at.Path, "/")
	if at.Scheme == "redis+unix" {
		if db = at.Query.Get("db"); len(at.Hosts) > 0 || !strings.HasPrefix(at.Path, "/") {
			return options, set, errors.New("write redis+unix:///path/of/the/socket, with three slashes")
		}
		options.InitAddress = []string{at.Path}
	} else if options.InitAddress, err = address(at.Hosts); err != nil {
		return options, set, err
	}
	if db != "" {
		if options.SelectDB, err = strconv.Atoi(db); err != nil || options.SelectDB < 0 {
			return options, set, errors.New("the database is a number, as in redis://127.0.0.1:6379/0")
		}
	}
	if at.Scheme == "rediss" {
		if options.TLSConfig, err = tlsurl.Config(at); err == nil && options.TLSConfig.ServerName == "" {
			options.TLSConfig.ServerName, _, err = net.SplitHostPort(options.InitAddress[0])
		}
	}
	return options, set, err
}

// address is the one host of a URL with its port.
func address(hosts []string) ([]string, error) {
	if len(hosts) != 1 {
		return nil, errors.New("a redis store has one host, as in redis://127.0.0.1:6379")
	}
	if _, _, err := net.SplitHostPort(hosts[0]); err == nil {
		return hosts, nil
	}
	return []string{net.JoinHostPort(strings.Trim(hosts[0], "[]"), "6379")}, nil
}
