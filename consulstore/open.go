package consulstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/endpoint"
	"github.com/holdfast-go/holdfast/internal/sessionserver"
	"github.com/holdfast-go/holdfast/internal/tlsurl"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

func init() { sessionserver.Register(parse, start, "consul", "consuls") }

// DefaultNode is the node of the catalog that sessions belong to if none is set.
const DefaultNode = "holdfast"

// settings are what options and parameters of the URL set.
type settings struct {
	network     string // tcp or unix
	addresses   []string
	prefix      string
	ttl         time.Duration
	datacenter  string
	namespace   string
	node        string
	tls         *tls.Config
	plain       bool
	credentials func(context.Context) (token string, err error)
	description string // what a session is called, for operators
	hide        func(secret string)
}

// An Option is a setting of a store.
type Option func(*settings)

// WithPrefix separates tenants: stores with different prefixes never see each other's names.
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// WithTTL sets the ttl of the session, and so the ttl of every lock. The default is DefaultTTL. Consul accepts 10s or
// more, unless its session_ttl_min is configured otherwise.
func WithTTL(d time.Duration) Option { return func(s *settings) { s.ttl = d } }

// WithPlainMode keeps locks as Consul's own tools keep them: see the package's documentation. A prefix is put before
// the name as it is.
func WithPlainMode() Option { return func(s *settings) { s.plain = true } }

// WithDatacenter sets the datacenter whose servers keep the locks. The default is the agent's own.
func WithDatacenter(name string) Option { return func(s *settings) { s.datacenter = name } }

// WithNamespace sets the namespace of keys and sessions, where Consul has namespaces.
func WithNamespace(name string) Option { return func(s *settings) { s.namespace = name } }

// WithNode sets the node of the catalog that the session belongs to. The default is DefaultNode, which is registered if
// it is not there. A session ends with its node: with the name of an agent's own node, locks end when that agent
// leaves, while their holders still believe in them.
func WithNode(name string) Option { return func(s *settings) { s.node = name } }

// WithToken sets the token of every request. The default is CONSUL_HTTP_TOKEN of the environment.
func WithToken(token string) Option {
	return WithCredentials(func(context.Context) (string, error) { return token, nil })
}

// WithCredentials makes requests use the token that read returns, for tokens that change. read is called when the store
// is opened, and whenever Consul has refused the last token.
func WithCredentials(read func(context.Context) (token string, err error)) Option {
	return func(s *settings) { s.credentials = read }
}

// WithTLS makes connections use TLS.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls = config } }

// Open returns a store on an agent or a server, given as host:port, host, or unix:///path/to/socket. If there are
// several, the store switches to the next when one can't be reached or does not respond. The error is a *store.Fault if
// Consul fails, that of ctx, or about an invalid option.
func Open(ctx context.Context, addresses []string, options ...Option) (*Store, error) {
	set := &settings{addresses: addresses}
	for _, o := range options {
		o(set)
	}
	return start(ctx, set)
}

// start returns a store, and begins its session.
func start(ctx context.Context, set *settings) (*Store, error) {
	if err := set.check(); err != nil {
		return nil, err
	}
	s := newStore(set)
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// check sets defaults, and returns an error if a setting is invalid.
func (s *settings) check() error {
	s.ttl, s.node = cmp.Or(s.ttl, DefaultTTL), cmp.Or(s.node, DefaultNode)
	s.description = endpoint.Process()
	if s.credentials == nil {
		WithToken(os.Getenv("CONSUL_HTTP_TOKEN"))(s)
	}
	port := "8500" // Consul's for HTTP
	if s.tls != nil {
		port = "8501" // and for HTTPS
	}
	s.network, s.addresses = "tcp", slices.Clone(s.addresses)
	for i, address := range s.addresses {
		if path, ok := strings.CutPrefix(address, "unix://"); ok {
			s.network, s.addresses[i] = "unix", path
		} else {
			s.addresses[i] = endpoint.WithPort(address, port)
		}
	}
	switch {
	case len(s.addresses) == 0:
		return errors.New("a Consul store has the address of an agent, as in consul://127.0.0.1:8500")
	case s.network == "unix" && len(s.addresses) > 1:
		return errors.New("a Consul store has one unix socket, and nothing beside it")
	case s.ttl < time.Millisecond || s.ttl > MaxTTL || s.ttl%time.Millisecond != 0:
		return fmt.Errorf("a session's ttl is whole milliseconds, up to %v, and not %v", MaxTTL, s.ttl)
	}
	return sessionserver.CheckPrefix(s.prefix)
}

// begin checks Consul, and begins the session and its renewal. If that fails, everything is closed.
func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := s.consul
	call := c.frame.Call(ctx, frame.AskTimeout)
	defer call.End()
	err := c.anywhere(call.Context, func(ctx context.Context) (err error) {
		c.identity, err = c.identify(ctx)
		return err
	})
	if err == nil {
		_, err = c.sessions.Current(call.Context)
	}
	if err != nil {
		err = call.Outcome(err)
		s.Close() //nolint:errcheck // what went wrong before is what counts
		return err
	}
	c.frame.Go(c.sessions.Run)
	return nil
}

// identify returns the identity that Consul keeps for a prefix, and writes a new one if there is none.
func (c *consul) identify(ctx context.Context) (string, error) {
	_, err := c.txn(ctx, casOp(c.keys.id, 0, sessionqueue.Format+rand.Text()))
	if _, there := errors.AsType[*failedOp](err); err != nil && !there {
		return "", err
	}
	entries, err := c.txn(ctx, treeOp(c.keys.id))
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "", c.noRead(c.keys.id)
	}
	id, ok := strings.CutPrefix(string(entries[0].Value), sessionqueue.Format)
	if !ok {
		return "", fmt.Errorf("%w: the key %s", store.ErrFormat, store.Quote(c.keys.id))
	}
	if c.plain {
		id += " plain" // a queue of that name is another lock
	}
	return id + "/" + c.prefix, nil
}

// parse reads a URL.
func parse(at store.Location) (*settings, error) {
	over, err := tlsurl.Parse(at, "consuls", "datacenter", "mode", "namespace", "node", "token-file")
	if err != nil {
		return nil, err
	}
	q := at.Query
	set := &settings{
		addresses: at.Hosts, prefix: at.Prefix, ttl: at.TTL, datacenter: q.Get("datacenter"),
		namespace: q.Get("namespace"), node: q.Get("node"), tls: over, plain: q.Get("mode") == "plain",
	}
	switch {
	case len(at.Hosts) == 0 && strings.HasPrefix(at.Path, "/") && at.Path != "/":
		set.addresses = []string{"unix://" + at.Path}
	case strings.Trim(at.Path, "/") != "":
		return nil, errors.New("the URL of a Consul store has no path after the host; one without a host has that of " +
			"a unix socket, as in consul:///run/consul.sock")
	}
	if !slices.Contains([]string{"", "queue", "plain"}, q.Get("mode")) {
		return nil, errors.New("mode is queue or plain")
	}
	err = set.parseToken(at)
	return set, err
}

// parseToken sets the credentials if the URL has a token.
func (s *settings) parseToken(at store.Location) error {
	token, _ := at.User.Password()
	file := at.Query.Get("token-file")
	switch {
	case at.User.Username() != "":
		return errors.New("a Consul store has no user: a token is written consul://:TOKEN@host")
	case token != "" && file != "":
		return errors.New("a token is in the URL or in token-file, and not in both")
	case at.Query.Has("token-file"):
		s.credentials = func(context.Context) (string, error) { return readTokenFile(file) }
		_, err := readTokenFile(file) // what is given as the file's name may be the token: it must not be shown
		return err
	case token != "":
		WithToken(token)(s)
	}
	return nil
}

// readTokenFile returns the token in a file. An empty file is an error: without a token, requests would have the
// permissions of the anonymous user.
func readTokenFile(file string) (string, error) {
	text, err := os.ReadFile(file)
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("token-file: the file cannot be read: %w", errors.Unwrap(err))
	case token == "":
		return "", errors.New("token-file: the file is empty")
	}
	return token, nil
}
