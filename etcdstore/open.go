package etcdstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/holdfast-go/holdfast/internal/endpoint"
	"github.com/holdfast-go/holdfast/internal/sessionserver"
	"github.com/holdfast-go/holdfast/internal/tlsurl"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

func init() {
	connectTo := func(ctx context.Context, set settings) (*Store, error) {
		return connect(ctx, set.config.Endpoints, set)
	}
	sessionserver.Register(parse, connectTo, "etcd", "etcds")
}

// settings are what options and parameters of the URL set.
type settings struct {
	prefix      string
	ttl         time.Duration
	tls         *tls.Config
	credentials Credentials
	forOpen     []string // the options that are not for New

	config clientv3.Config // of a client of the store's own
}

// An Option is a setting of a store.
type Option func(*settings)

// WithPrefix separates tenants: stores with different prefixes never see each other's names.
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// WithTTL sets the ttl of the session, and so of every lock, in whole seconds, rounded up. The default is DefaultTTL.
// etcd grants more if it is below one and a half of its election timeouts.
func WithTTL(d time.Duration) Option { return func(s *settings) { s.ttl = d } }

// WithTLS makes connections use TLS. It is for [Open].
func WithTLS(config *tls.Config) Option {
	return func(s *settings) { s.tls, s.forOpen = config, append(s.forOpen, "WithTLS") }
}

// Credentials returns a user and a password. An empty user stands for the one of the URL.
type Credentials func(ctx context.Context) (user, password string, err error)

// WithCredentials makes each login use the result of get, for passwords that change. It is for [Open]. get is called
// whenever etcd has to issue a token: when the store is opened, for each new stream, and when etcd rejects the token in
// use, as it does after the password was changed. get must return when ctx ends, and may be called by several
// goroutines at once.
func WithCredentials(get Credentials) Option {
	return func(s *settings) { s.credentials, s.forOpen = get, append(s.forOpen, "WithCredentials") }
}

// WithLogin is WithCredentials for a password that does not change.
func WithLogin(user, password string) Option {
	return WithCredentials(func(context.Context) (string, string, error) { return user, password, nil })
}

// New returns a store over a client, which remains the caller's: Close does not close it. The store ignores a namespace
// that was put over the client: it has its own prefix. The client logs in with the password that it was made with; for
// passwords that change, use Open or a URL. The error is a *store.Fault if etcd fails, that of ctx, or about an option
// that is invalid or for Open only.
func New(ctx context.Context, client *clientv3.Client, options ...Option) (*Store, error) {
	set := settingsOf(options)
	if len(set.forOpen) > 0 {
		return nil, fmt.Errorf("%s is for etcdstore.Open: a client has its own", set.forOpen[0])
	}
	return start(ctx, newFrame(client.Endpoints(), client.Password), client, false, set)
}

// Open returns a store on the members of an etcd, given as host:port or host. The error is a *store.Fault if etcd
// fails, that of ctx, or about an invalid option.
func Open(ctx context.Context, endpoints []string, options ...Option) (*Store, error) {
	set := settingsOf(options)
	if len(endpoints) == 0 {
		return nil, errNoHost
	}
	set.config.Endpoints = endpoint.WithPorts(endpoints, "2379")
	set.useTLS()
	return connect(ctx, set.config.Endpoints, set)
}

// settingsOf returns the settings that the options make.
func settingsOf(options []Option) (set settings) {
	for _, o := range options {
		o(&set)
	}
	return set
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

// start returns a store, and begins its session if etcd is usable.
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
	if err := sessionserver.CheckPrefix(set.prefix); err != nil {
		return err
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

// identify returns the identity that etcd keeps for a prefix, and writes a new one if there is none.
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

// dialTimeout bounds logging in.
const dialTimeout = 5 * time.Second

// connect makes a store with a client of its own.
func connect(ctx context.Context, endpoints []string, set settings) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	config := set.config
	config.Logger = zap.NewNop() // what fails is returned
	config.DialTimeout = dialTimeout
	config.DialKeepAliveTime, config.DialKeepAliveTimeout = 10*time.Second, 5*time.Second
	reconnect := backoff.Config{
		BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second,
	}
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(promptLogin),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 3 * time.Second}))
	f := newFrame(endpoints, config.Password)
	if set.credentials != nil {
		l := &login{get: set.credentials, user: config.Username, hide: f.HideLatest}
		// The client logs in only if it has both. What it sends is replaced.
		config.Username, config.Password = cmp.Or(config.Username, "-"), "-"
		config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(l.intercept))
	}
	client, err := newClient(ctx, config)
	if err != nil {
		return nil, f.Fault(ctx, err)
	}
	return start(ctx, f, client, true, set)
}

// promptLogin makes a login fail at once, with the reason, if there is no connection.
func promptLogin(
	ctx context.Context, method string, request, response any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if method == etcdserverpb.Auth_Authenticate_FullMethodName {
		options = append(options[:len(options):len(options)], grpc.WaitForReady(false))
	}
	return call(ctx, method, request, response, conn, options...)
}

// A login replaces the user and the password in login requests by the current ones. The client library does not support
// passwords that change, but it logs in over the store's own connection: when it is made, before each stream, and when
// etcd has rejected its token.
type login struct {
	get  Credentials
	user string // of the URL
	hide func(password string)
}

// errNoCredentials is the error of a login without a password.
var errNoCredentials = errors.New("no user and password to log in with")

func (l *login) intercept(
	ctx context.Context, method string, request, response any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if method != etcdserverpb.Auth_Authenticate_FullMethodName {
		return call(ctx, method, request, response, conn, options...)
	}
	user, password, err := l.get(ctx)
	l.hide(password)
	if user = cmp.Or(user, l.user); err == nil && (user == "" || password == "") {
		err = errors.New("one of them is empty")
	}
	if err != nil {
		return fmt.Errorf("%w: %v", errNoCredentials, err) //nolint:errorlint // the library would retry some
	}
	request = &etcdserverpb.AuthenticateRequest{Name: user, Password: password}
	return call(ctx, method, request, response, conn, options...)
}

// newClient returns a client. If there is a password, it logs in, which the client library does with a context of its
// own.
func newClient(ctx context.Context, config clientv3.Config) (*clientv3.Client, error) {
	within, cancel := context.WithCancel(context.Background())
	config.Context = within // of the client's whole life
	stop := context.AfterFunc(ctx, cancel)
	client, err := clientv3.New(config)
	if !stop() || err != nil {
		cancel()
		if client != nil {
			client.Close() //nolint:errcheck // it was not used
		}
		return nil, errors.Join(err, ctx.Err())
	}
	return client, nil
}

// errNoHost is the error of a store without members.
var errNoHost = errors.New("an etcd store has one host or more, as in etcd://h1:2379,h2:2379,h3:2379")

// parse reads a URL.
func parse(at store.Location) (set settings, err error) {
	if set.tls, err = tlsurl.Parse(at, "etcds", "password-file"); err != nil {
		return set, err
	}
	if at.Path != "" && at.Path != "/" {
		return set, errors.New("an etcd store has no path; tenants are kept apart by prefix=")
	}
	if len(at.Hosts) == 0 {
		return set, errNoHost
	}
	set.prefix, set.ttl = at.Prefix, at.TTL
	config := &set.config
	config.Endpoints = endpoint.WithPorts(at.Hosts, "2379")
	set.useTLS()
	config.Username = at.User.Username()
	config.Password, _ = at.User.Password()
	set.credentials, err = endpoint.FileCredentials(at)
	if err == nil && set.credentials == nil && at.User != nil && (config.Username == "" || config.Password == "") {
		err = errors.New("user and password go together, as in etcd://user:password@host")
	}
	return set, err
}

// useTLS makes the client use TLS if that is configured.
func (s *settings) useTLS() {
	if s.tls == nil {
		return
	}
	s.config.TLS = s.tls
	for i, e := range s.config.Endpoints {
		s.config.Endpoints[i] = "https://" + e
	}
	if name := s.tls.ServerName; name != "" { // otherwise gRPC takes the host for it, whatever the configuration says
		s.config.DialOptions = append(s.config.DialOptions, grpc.WithAuthority(name))
	}
}
