package etcdstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-go/holdfast/internal/tlsurl"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
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
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// TTL is the ttl of the session, and so of every lock, in whole seconds, rounded up. The default is DefaultTTL. etcd
// grants more if it is below one and a half of its election timeouts.
func WithTTL(d time.Duration) Option { return func(s *settings) { s.ttl = d } }

// New makes a store of a client that stays the caller's: Close does not close it. A namespace that was put over the
// client is not seen by the store, which has its Prefix.
func New(ctx context.Context, client *clientv3.Client, options ...Option) (*Store, error) {
	var set settings
	for _, o := range options {
		o(&set)
	}
	return start(ctx, newFrame(client.Endpoints(), client.Password), client, false, set)
}

// newFrame returns the frame of a store with these members, which are named without their schemes.
func newFrame(endpoints []string, password string) *frame.Frame {
	hosts := make([]string, len(endpoints))
	for i, e := range endpoints {
		hosts[i] = e
		if _, host, has := strings.Cut(e, "://"); has {
			hosts[i] = host
		}
	}
	f := frame.New(frame.Config{Name: "etcd at " + strings.Join(hosts, ","), Drift: frame.Clocks, Explain: explain})
	f.Hide(password)
	return f
}

// start makes a store, and begins its session if etcd will do.
func start(ctx context.Context, f *frame.Frame, client *clientv3.Client, owned bool, set settings) (*Store, error) {
	set.ttl = cmp.Or(set.ttl, DefaultTTL)
	s := newStore(f, client, owned, set)
	if err := s.begin(ctx, set); err != nil {
		s.Close() //nolint:errcheck // what went wrong before is what counts
		return nil, err
	}
	return s, nil
}

func (s *Store) begin(ctx context.Context, set settings) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if set.prefix != "" {
		if err := store.CheckName(set.prefix); err != nil {
			return err
		}
	}
	if set.ttl < 0 || set.ttl > MaxTTL {
		return fmt.Errorf("a session's ttl is from a second to %v, and not %v", MaxTTL, set.ttl)
	}
	call := s.frame.Call(ctx, frame.AskTimeout)
	defer call.End()
	err := s.inspect(call.Context)
	if err == nil {
		s.identity, err = s.identify(call.Context, set.prefix)
	}
	var ses *session
	if err == nil {
		ses, err = s.sessions.Current(call.Context)
	}
	if err != nil {
		return call.Outcome(err)
	}
	s.ttl = ses.TTL
	s.doubts.Limit, s.deletes.Limit = s.ttl/2, s.ttl/2
	s.frame.Go(s.sessions.Run)
	s.frame.Go(s.watcher.run)
	return nil
}

// identify returns the identity that etcd keeps for a prefix, and makes one if it has none.
func (s *Store) identify(ctx context.Context, prefix string) (string, error) {
	response, _, err := s.etcd.commit(ctx, transaction{
		when:   []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(s.keys.id), "=", 0)},
		then:   []clientv3.Op{clientv3.OpPut(s.keys.id, format+rand.Text()), clientv3.OpGet(s.keys.id)},
		orElse: []clientv3.Op{clientv3.OpGet(s.keys.id)},
	})
	if err != nil {
		return "", err
	}
	kv := results(response.Responses).kvs(len(response.Responses) - 1)[0]
	id, ok := strings.CutPrefix(string(kv.Value), format)
	if !ok {
		return "", unreadable(kv.Key, store.ErrFormat)
	}
	return id + "/" + prefix, nil
}

// open connects to the etcd at a URL.
func open(ctx context.Context, at store.Location) (store.Store, error) {
	config, set, err := parse(at)
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, config.Endpoints, config, set)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// dialTimeout bounds logging in.
const dialTimeout = 5 * time.Second

// connect makes a store with a client of its own.
func connect(ctx context.Context, endpoints []string, config clientv3.Config, set settings) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	config.Logger = zap.NewNop() // what fails is returned
	config.DialTimeout = dialTimeout
	config.DialKeepAliveTime, config.DialKeepAliveTimeout = 10*time.Second, 5*time.Second
	reconnect := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(promptLogin),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 3 * time.Second}))
	f := newFrame(endpoints, config.Password)
	client, err := login(ctx, config)
	if err != nil {
		return nil, f.Fault(ctx, err)
	}
	return start(ctx, f, client, true, set)
}

// promptLogin has logging in fail when there is no connection to be had, and say why.
func promptLogin(
	ctx context.Context, method string, request, response any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if method == etcdserverpb.Auth_Authenticate_FullMethodName {
		options = append(options[:len(options):len(options)], grpc.WaitForReady(false))
	}
	return call(ctx, method, request, response, conn, options...)
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
