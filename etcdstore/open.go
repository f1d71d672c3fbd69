package etcdstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-go/holdfast/internal/tlsurl"
	"github.com/holdfast-go/holdfast/store"
)

func init() {
	store.Register("etcd", open)
	store.Register("etcds", open)
}

// settings are what options and parameters of the URL set.
type settings struct {
	prefix string
	ttl    time.Duration
}

// An Option is a setting of a store.
type Option func(*settings)

// Prefix separates tenants: stores with different prefixes never see each other's names.
func Prefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// TTL is the ttl of the session, and so of every lock, in whole seconds, rounded up. The default is DefaultTTL. etcd grants
// more if it is below one and a half of its election timeouts.
func TTL(d time.Duration) Option { return func(s *settings) { s.ttl = d } }

// New makes a store of a client that stays the caller's: Close does not close it. A namespace that was put over the client
// is not seen by the store, which has its Prefix.
func New(ctx context.Context, client *clientv3.Client, options ...Option) (*Store, error) {
	var set settings
	for _, o := range options {
		o(&set)
	}
	return newStore(ctx, called(client.Endpoints()), client, false, set)
}

func newStore(ctx context.Context, called string, client *clientv3.Client, owned bool, set settings) (*Store, error) {
	if set.ttl == 0 {
		set.ttl = DefaultTTL
	}
	conn := client.ActiveConnection()
	s := &Store{
		client: client,
		owned:  owned,
		kv:     clientv3.NewKVFromKVClient(prompt{etcdserverpb.NewKVClient(conn)}, client),
		leases: etcdserverpb.NewLeaseClient(conn),
		called: called,
		about:  aboutProcess(),
		keys:   newKeySpace(set.prefix),
		prefix: set.prefix,
		ttl:    set.ttl,
		began:  make(chan struct{}, 1),
		places: map[store.ID]*place{},
		doubts: map[*place]struct{}{},
		seats:  map[string]*seats{},
		debts:  map[store.ID]debt{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.watchTimer = time.AfterFunc(time.Hour, s.watchOwn)
	s.watchTimer.Stop()
	s.beats = rounds{work: s.beat, tasks: &s.tasks}
	s.openings = rounds{work: s.openSession, tasks: &s.tasks}
	s.looks = rounds{work: s.resolve, tasks: &s.tasks}
	s.payments = rounds{work: s.payDebts, tasks: &s.tasks}
	s.pulse = pulse{life: s.life, open: func(ctx context.Context) (etcdserverpb.Lease_LeaseKeepAliveClient, error) {
		return s.leases.LeaseKeepAlive(clientv3.WithRequireLeader(ctx))
	}}
	s.lookout = lookout{
		life: s.life, watches: map[int64]*watch{}, filled: make(chan struct{}, 1),
		everyone: func() { s.tell(store.Everyone, store.Standing{}) },
		open: func(ctx context.Context) (etcdserverpb.Watch_WatchClient, error) {
			return etcdserverpb.NewWatchClient(conn).Watch(clientv3.WithRequireLeader(ctx))
		},
	}
	if err := s.start(ctx, set.prefix); err != nil {
		s.Close() //nolint:errcheck // what went wrong before is what counts
		return nil, err
	}
	return s, nil
}

// called names the store for people.
func called(endpoints []string) string {
	hosts := make([]string, len(endpoints))
	for i, e := range endpoints {
		_, host, found := strings.Cut(e, "://")
		if !found {
			host = e
		}
		hosts[i] = host
	}
	return "etcd at " + strings.Join(hosts, ",")
}

// aboutProcess says who has the session.
func aboutProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + " " + strconv.Itoa(os.Getpid())
}

// start looks whether etcd will do, and begins a session.
func (s *Store) start(ctx context.Context, prefix string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if prefix != "" {
		if err := store.CheckName(prefix); err != nil {
			return err
		}
	}
	if s.ttl < 0 || s.ttl > MaxTTL {
		return fmt.Errorf("a session's ttl is from a second to %v, and not %v", MaxTTL, s.ttl)
	}
	within, cancel := within(ctx, askTimeout)
	defer cancel()
	err := s.inspect(within)
	if err == nil {
		err = s.identify(within)
	}
	if err == nil {
		_, err = s.current(within)
	}
	if err != nil {
		return s.failed(ctx, within, askTimeout, err)
	}
	s.ttl = s.session.ttl
	s.tasks.Go(s.live)
	s.tasks.Go(s.lookout.run)
	return nil
}

// identify asks for the identity that etcd keeps for this prefix, and makes one up if it has none.
func (s *Store) identify(ctx context.Context) error {
	answer, _, err := s.commit(ctx, transaction{
		when:   []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(s.keys.id), "=", 0)},
		then:   []clientv3.Op{clientv3.OpPut(s.keys.id, format+rand.Text()), clientv3.OpGet(s.keys.id)},
		orElse: []clientv3.Op{clientv3.OpGet(s.keys.id)},
	})
	if err != nil {
		return err
	}
	kv := answer.Responses[len(answer.Responses)-1].GetResponseRange().Kvs[0]
	id, ok := strings.CutPrefix(string(kv.Value), format)
	if !ok {
		return s.unreadable(kv.Key, store.ErrFormat)
	}
	s.identity = id + "/" + s.prefix
	return nil
}

// open connects to the etcd at a URL.
func open(ctx context.Context, at store.Location) (store.Store, error) {
	config, set, err := parse(at)
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, called(config.Endpoints), config, set)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// dialTimeout bounds logging in.
const dialTimeout = 5 * time.Second

// connect makes a store with a client of its own.
func connect(ctx context.Context, called string, config clientv3.Config, set settings) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	config.Logger = zap.NewNop() // what fails is returned
	config.DialTimeout = dialTimeout
	config.DialKeepAliveTime, config.DialKeepAliveTimeout = 10*time.Second, 5*time.Second
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(promptLogin), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
		MinConnectTimeout: 3 * time.Second,
	}))
	client, err := login(ctx, config)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		why, final := explain(err)
		return nil, &store.Fault{Store: called, Final: final, Err: why}
	}
	return newStore(ctx, called, client, true, set)
}

// promptLogin has logging in fail when there is no connection to be had, and say why.
func promptLogin(ctx context.Context, method string, request, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if method == etcdserverpb.Auth_Authenticate_FullMethodName {
		options = append(options[:len(options):len(options)], grpc.WaitForReady(false))
	}
	return call(ctx, method, request, answer, conn, options...)
}

// login makes a client. It logs in if there is a password, which the client library does without a context of ours.
func login(ctx context.Context, config clientv3.Config) (*clientv3.Client, error) {
	within, cancel := context.WithCancel(context.Background())
	config.Context = within // of the client's whole life
	stop := context.AfterFunc(ctx, cancel)
	client, err := clientv3.New(config)
	if !stop() || err != nil {
		cancel()
		if client != nil {
			client.Close() //nolint:errcheck // nothing was done with it
		}
		return nil, errors.Join(err, ctx.Err())
	}
	return client, nil
}

// parse reads a URL.
func parse(at store.Location) (config clientv3.Config, set settings, err error) {
	var allowed []string
	if at.Scheme == "etcds" {
		allowed = tlsurl.Parameters
	}
	if err := at.Allow(allowed...); err != nil {
		return config, set, err
	}
	if at.Path != "" && at.Path != "/" {
		return config, set, errors.New("an etcd store has no path; tenants are kept apart by prefix=")
	}
	if len(at.Hosts) == 0 {
		return config, set, errors.New("an etcd store has one host or more, as in etcd://h1:2379,h2:2379,h3:2379")
	}
	for _, host := range at.Hosts {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "2379")
		}
		config.Endpoints = append(config.Endpoints, host)
	}
	if at.User != nil {
		config.Username = at.User.Username()
		config.Password, _ = at.User.Password()
		if config.Username == "" || config.Password == "" {
			return config, set, errors.New("user and password go together, as in etcd://user:password@host")
		}
	}
	set.prefix, set.ttl = at.Prefix, at.TTL
	if set.ttl == 0 {
		set.ttl = DefaultTTL
	}
	if at.Scheme == "etcds" {
		err = overTLS(&config, at)
	}
	return config, set, err
}

// overTLS sets what a URL says about TLS.
func overTLS(config *clientv3.Config, at store.Location) (err error) {
	if config.TLS, err = tlsurl.Config(at); err != nil {
		return err
	}
	for i, e := range config.Endpoints {
		config.Endpoints[i] = "https://" + e
	}
	if name := config.TLS.ServerName; name != "" { // gRPC takes the host for it otherwise, whatever the configuration says
		config.DialOptions = append(config.DialOptions, grpc.WithAuthority(name))
	}
	return nil
}
