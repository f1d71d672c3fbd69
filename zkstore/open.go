package zkstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/internal/endpoint"
	"github.com/holdfast-go/holdfast/internal/sessionserver"
	"github.com/holdfast-go/holdfast/internal/tlsurl"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

func init() { sessionserver.Register(parse, start, "zk", "zks") }

// DefaultTick is the tickTime of a server whose configuration does not set one.
const DefaultTick = 3 * time.Second

// leastTicks is the shortest ttl of a session, in ticks, for which a renewal extends it.
const leastTicks = 4

// settings are what options and parameters of the URL set.
type settings struct {
	servers        []string
	chroot         string
	prefix         string
	ttl            time.Duration
	tick           time.Duration
	user, password string
	credentials    Credentials
	hide           func(password string)
	tls            *tls.Config
	layoutName     string
	description    string // what a session's node says, for operators
}

// An Option is a setting of a store.
type Option func(*settings)

// WithPrefix separates tenants: stores with different prefixes never see each other's names.
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// WithTTL sets the timeout of the session, and so the ttl of every lock. The default is DefaultTTL. Servers allow from
// 2 to 20 of their ticks, unless they are configured otherwise.
func WithTTL(d time.Duration) Option { return func(s *settings) { s.ttl = d } }

// WithTick sets the greatest tickTime of the servers, as in their configuration. The default is DefaultTick. A greater
// tick shortens the validity of locks by the difference; a tick that is less than the servers' is not safe.
func WithTick(d time.Duration) Option { return func(s *settings) { s.tick = d } }

// WithChroot sets the path of a node, which must exist: everything is under it.
func WithChroot(path string) Option { return func(s *settings) { s.chroot = path } }

// WithTLS makes connections use TLS.
func WithTLS(config *tls.Config) Option { return func(s *settings) { s.tls = config } }

// WithLayout sets the layout of the nodes: "holdfast", which is the default, or "curator" or "curator-rw" for sharing
// locks with programs that use Curator (see the package's documentation). With a user, those must log in as the same
// user, since a waiting claim reads the nodes of others.
func WithLayout(name string) Option { return func(s *settings) { s.layoutName = name } }

// Open returns a store on these servers, given as host:port or host. The error is a *store.Fault if the servers fail or
// refuse the ttl, that of ctx, or about an invalid option.
func Open(ctx context.Context, servers []string, options ...Option) (*Store, error) {
	set := &settings{servers: servers}
	for _, o := range options {
		o(set)
	}
	return start(ctx, set)
}

// layouts are the names of layouts.
const (
	ownName       = "holdfast"
	curatorName   = "curator"
	curatorRWName = "curator-rw"
)

// check sets defaults, and returns an error if a setting is invalid.
func (s *settings) check() error {
	s.ttl, s.tick = cmp.Or(s.ttl, DefaultTTL), cmp.Or(s.tick, DefaultTick)
	s.layoutName = cmp.Or(s.layoutName, ownName)
	s.chroot = strings.TrimSuffix(s.chroot, "/")
	s.description = sessionqueue.Format + endpoint.Process()
	switch {
	case s.credentials == nil && (s.user == "") != (s.password == "") || strings.Contains(s.user, ":"):
		return errors.New("user and password go together, as in zk://user:password@host, and a user has no colon")
	case len(s.servers) == 0:
		return errors.New("a ZooKeeper store has one server or more, as in zk://h1:2181,h2:2181,h3:2181")
	case s.ttl < time.Millisecond || s.ttl > MaxTTL || s.ttl%time.Millisecond != 0:
		return fmt.Errorf("a session's ttl is whole milliseconds, up to %v, and not %v", MaxTTL, s.ttl)
	case s.tick <= 0 || s.tick > s.ttl/leastTicks:
		return fmt.Errorf("a session's ttl is at least %d ticks of the servers, and %v is less than that of %v: set "+
			"ttl, or tick if the servers' tickTime is shorter", leastTicks, s.ttl, s.tick)
	case s.layoutName != ownName && s.layoutName != curatorName && s.layoutName != curatorRWName:
		return fmt.Errorf("layout is %s, %s or %s", ownName, curatorName, curatorRWName)
	case s.layoutName != ownName && s.prefix != "":
		return errors.New("with Curator's layout there is no prefix: names are paths")
	case s.chroot != "" && !isPath(s.chroot):
		// And is not shown: it may be a piece of a password.
		return errors.New("what is given is not the path of a node")
	}
	return sessionserver.CheckPrefix(s.prefix)
}

// isPath reports whether ZooKeeper accepts text as a path.
func isPath(text string) bool {
	if !strings.HasPrefix(text, "/") || !utf8.ValidString(text) || strings.ContainsFunc(text, isRefused) {
		return false
	}
	for component := range strings.SplitSeq(text[1:], "/") {
		if component == "" || component == "." || component == ".." {
			return false
		}
	}
	return true
}

// isRefused reports whether ZooKeeper refuses paths with r.
func isRefused(r rune) bool {
	return unicode.IsControl(r) || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// layout returns the layout that is configured.
func (s *settings) layout() layout {
	if s.layoutName == ownName {
		return ownLayout{s.tenant() + "/line"}
	}
	return curatorLayout{s.chroot, s.layoutName == curatorRWName}
}

// base returns the path of Holdfast's own nodes.
func (s *settings) base() string { return s.chroot + "/" + reserved }

// tenant returns the path of all nodes of this prefix.
func (s *settings) tenant() string {
	if s.prefix == "" {
		return s.base()
	}
	return s.base() + "/tenant/" + escape(s.prefix)
}

// sessions returns the path of the nodes of sessions.
func (s *settings) sessions() string { return s.tenant() + "/session" }

// A fixture is a node that must exist, and is never removed.
type fixture struct {
	path string
	acl  []zk.ACL
}

// tree returns the nodes that must exist, from the top. Every user may create nodes under those that tenants share.
func (s *settings) tree() (nodes []fixture) {
	if s.prefix != "" {
		open := append(s.acl(), zk.WorldACL(zk.PermRead|zk.PermCreate)...)
		nodes = append(nodes, fixture{s.base(), open}, fixture{s.base() + "/tenant", open})
	}
	nodes = append(nodes, fixture{s.tenant(), s.acl()}, fixture{s.sessions(), s.acl()})
	if s.layoutName == ownName {
		return append(nodes, fixture{s.tenant() + "/line", s.acl()})
	}
	return append(nodes, fixture{s.tenant() + "/number", s.acl()})
}

// acl returns an ACL that allows everything: to the user if there is one, and otherwise to all.
func (s *settings) acl() []zk.ACL {
	if !s.hasUser() {
		return zk.WorldACL(zk.PermAll)
	}
	return zk.AuthACL(zk.PermAll) // to all users that the session has logged in as
}

// start returns a store, and begins its session.
func start(ctx context.Context, set *settings) (*Store, error) {
	if err := set.check(); err != nil {
		return nil, err
	}
	s := newStore(newFrame(set), set)
	if err := s.begin(ctx); err != nil {
		s.Close() //nolint:errcheck // what went wrong before is what counts
		return nil, err
	}
	return s, nil
}

func newFrame(set *settings) *frame.Frame {
	name := "zookeeper at " + strings.Join(set.servers, ",") + set.chroot
	f := frame.New(frame.Config{Name: name, Drift: frame.Clocks, Explain: explain})
	f.Hide(set.password)
	set.hide = f.HideLatest
	return f
}

func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	call := s.Frame.Call(ctx, frame.AskTimeout)
	defer call.End()
	c, err := s.Session(call.Context)
	if err == nil {
		s.identity, err = s.identify(call.Context, c)
	}
	if err == nil {
		s.Start()
	}
	return call.Outcome(err)
}

// identify returns the identity that the servers keep for a prefix, and writes a new one if there is none.
func (s *Store) identify(ctx context.Context, c *client) (string, error) {
	path := s.servers.tenant() + "/id"
	err := create(ctx, c, path, []byte(sessionqueue.Format+rand.Text()), 0, s.servers.acl())
	if err != nil {
		return "", err
	}
	data, err := read(ctx, c, path)
	if err != nil {
		return "", pathError(path, err)
	}
	id, ok := strings.CutPrefix(string(data), sessionqueue.Format)
	if !ok {
		return "", fmt.Errorf("%w: the node %s", store.ErrFormat, store.Quote(path))
	}
	return id + "/" + s.servers.layoutName + "/" + s.servers.prefix, nil
}

// parse reads a URL.
func parse(at store.Location) (*settings, error) {
	over, err := tlsurl.Parse(at, "zks", "layout", "password-file", "tick")
	if err != nil {
		return nil, err
	}
	set := &settings{
		servers: endpoint.WithPorts(at.Hosts, "2181"), chroot: at.Path, prefix: at.Prefix, ttl: at.TTL, tls: over,
		layoutName: at.Query.Get("layout"), user: at.User.Username(),
	}
	set.password, _ = at.User.Password()
	if set.credentials, err = endpoint.FileCredentials(at); err != nil {
		return nil, err
	}
	if at.Query.Has("tick") {
		tick, err := time.ParseDuration(at.Query.Get("tick"))
		if err != nil || tick <= 0 {
			return nil, errors.New("tick is a positive duration, as in tick=2s")
		}
		set.tick = tick
	}
	return set, nil
}
