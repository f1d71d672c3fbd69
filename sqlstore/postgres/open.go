package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/dbserver"
	"github.com/holdfast-go/holdfast/internal/endpoint"
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/sqlstore/routines"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

func init() {
	store.Register("postgres", openURL)
	store.Register("postgresql", openURL)
}

// oldest is the oldest supported version of the server, as in server_version_num.
const oldest = 130000

// An Option configures a store.
type Option func(*settings)

type settings struct {
	prefix      string
	listen      string
	credentials Credentials
	dial        pgconn.DialFunc // nil: as usual
	migrations  []string
	trusting    bool     // Open does not check the user's privileges
	lone        []string // users of URLs without a password, which may be passwords in the wrong position
	hide        func(password string)
}

// WithPrefix sets a prefix that separates tenants: stores with different prefixes never see each other's names.
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// WithListener sets the URL at which the store listens for its grants. It must be a connection to the same database
// without a pooler between.
func WithListener(url string) Option { return func(s *settings) { s.listen = url } }

// Credentials is a function that returns a user and a password. If the user is empty, the user of the URL is used.
type Credentials func(ctx context.Context) (user, password string, err error)

// WithCredentials sets a function that returns user and password; it is called for each new connection. It is for
// passwords that change.
func WithCredentials(get Credentials) Option { return func(s *settings) { s.credentials = get } }

// parameters are the parameters of libpq that a URL may have.
var parameters = []string{
	"application_name", "connect_timeout", "host", "passfile", "sslcert", "sslkey", "sslmode", "sslrootcert", "sslsni",
	"target_session_attrs",
}

func openURL(ctx context.Context, at store.Location) (store.Store, error) {
	s, err := openAt(ctx, at, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openAt(ctx context.Context, at store.Location, more []Option) (*sqlstore.Store, error) {
	if err := at.Allow(append([]string{"listen", "password-file"}, parameters...)...); err != nil {
		return nil, err
	}
	options := []Option{WithPrefix(at.Prefix), func(s *settings) { s.lone = append(s.lone, at.LoneUser()) }}
	if at.Query.Has("listen") {
		options = append(options, WithListener(at.Query.Get("listen")))
	}
	if file := at.Query.Get("password-file"); file != "" {
		options = append(options, WithCredentials(endpoint.PasswordFile(file)))
	}
	config, err := configOf(at)
	if err != nil {
		return nil, err
	}
	return open(ctx, config, append(options, more...))
}

// configOf returns the configuration for a URL. Its errors contain nothing of the URL.
func configOf(at store.Location) (*pgx.ConnConfig, error) {
	if _, err := at.Database(); err != nil {
		return nil, err
	}
	query := url.Values{}
	for _, name := range parameters {
		if at.Query.Has(name) {
			query.Set(name, at.Query.Get(name))
		}
	}
	if len(at.Hosts) > 1 && !query.Has("target_session_attrs") {
		query.Set("target_session_attrs", "read-write") // the others are standbys
	}
	source := "postgres://"
	if at.User != nil {
		source += at.User.String() + "@"
	}
	source += strings.Join(at.Hosts, ",") + (&url.URL{Path: at.Path}).EscapedPath() +
		"?" + strings.ReplaceAll(query.Encode(), "+", "%20") // libpq takes a + for a +
	config, err := pgx.ParseConfig(source)
	if err != nil {
		why := "it cannot be read"
		if inner := errors.Unwrap(err); inner != nil {
			why = inner.Error()
		}
		return nil, fmt.Errorf("the URL of a postgres store: %s", why)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return config, nil
}

// Open returns a store in the database at a URL such as postgres://user:password@host:5432/database. What the URL
// leaves out comes from the environment variables and files of libpq. Open creates the tables and functions if they are
// missing and the user may create them. It returns a *store.Fault if the server cannot be reached, refuses the user or
// is too old, and store.ErrFormat if a newer version has made the tables.
func Open(ctx context.Context, url string, options ...Option) (*sqlstore.Store, error) {
	at, err := store.ParseLocation(url)
	if err != nil {
		return nil, err
	}
	return openAt(ctx, at, options)
}

// New returns a store in a database that the program has opened. The store uses connections of its pool: while the
// program's own queries use all of them, no lease can be renewed. Closing the store does not close the database. The
// store closes idle connections of the pool when a server no longer responds or has become read-only. Errors are those
// of [Open].
func New(ctx context.Context, db *sql.DB, options ...Option) (*sqlstore.Store, error) {
	s := settingsOf(options)
	e := &engine{Engine: routines.Engine{DB: db}}
	config, err := configIn(ctx, db)
	if err != nil {
		return nil, err
	}
	if config != nil {
		e.Leading, e.Unsent = leading, true
		e.listener.connect = connectTo(config, s.logIn)
	}
	return e.open(ctx, config, &s)
}

// leading makes calls over pgx prepare nothing, whatever the program's default is.
var leading = []any{pgx.QueryExecModeExec}

// configIn returns how the connections of a database are made, or nil if its driver is not pgx itself.
func configIn(ctx context.Context, db *sql.DB) (config *pgx.ConnConfig, err error) {
	within, cancel := context.WithTimeout(ctx, dbserver.OpenTimeout)
	defer cancel()
	conn, err := db.Conn(within)
	if err != nil {
		return nil, newFrame("postgres", nil, explain).Outcome(ctx, within, dbserver.OpenTimeout, err)
	}
	defer conn.Close() //nolint:errcheck // returns it to the pool
	err = conn.Raw(func(c any) error {
		if c, ok := c.(*stdlib.Conn); ok {
			config = c.Conn().Config()
		}
		return nil
	})
	return config, err
}

// NewPool is [New] for a pool of pgx.
func NewPool(ctx context.Context, pool *pgxpool.Pool, options ...Option) (*sqlstore.Store, error) {
	s := settingsOf(options)
	config := pool.Config()
	e := &engine{Engine: routines.Engine{DB: stdlib.OpenDBFromPool(pool), Owned: true}} // which leaves the pool open
	e.Leading, e.Unsent = leading, true
	e.Usage = func() (inUse, most int) {
		s := pool.Stat()
		return int(s.AcquiredConns()), int(s.MaxConns())
	}
	e.Discard = pool.Reset
	e.listener.connect = connectTo(config.ConnConfig, func(ctx context.Context, c *pgx.ConnConfig) error {
		if before := config.BeforeConnect; before != nil {
			if err := before(ctx, c); err != nil {
				return err
			}
		}
		return s.logIn(ctx, c)
	})
	return e.open(ctx, config.ConnConfig, &s)
}

func settingsOf(options []Option) settings {
	s := settings{migrations: migrations}
	for _, o := range options {
		o(&s)
	}
	return s
}

func open(ctx context.Context, config *pgx.ConnConfig, options []Option) (*sqlstore.Store, error) {
	s := settingsOf(options)
	if s.dial != nil {
		config.DialFunc = s.dial
	}
	logIn := s.logIn
	db := dbserver.Bound(
		stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(logIn), stdlib.OptionShouldPing(isSuspect)))
	e := &engine{Engine: routines.Engine{DB: db, Owned: true, MaxIdle: dbserver.MaxConnections}}
	e.Unsent = true
	e.listener.connect = connectTo(config, logIn)
	return e.open(ctx, config, &s)
}

// isSuspect reports whether a connection that was idle has been closed by the server meanwhile.
func isSuspect(_ context.Context, p stdlib.ShouldPingParams) bool {
	return p.IdleDuration > time.Second && p.Conn.PgConn().CheckConn() != nil //nolint:staticcheck // it sends nothing
}

// logIn sets user and password of a new connection.
func (s *settings) logIn(ctx context.Context, config *pgx.ConnConfig) error {
	if s.credentials == nil {
		return nil
	}
	user, password, err := s.credentials(ctx)
	s.hide(password)
	config.User, config.Password = cmp.Or(user, config.User), password
	return err
}

// connectTo returns a function that makes a connection of its own, outside of any pool.
func connectTo(config *pgx.ConnConfig, logIn func(context.Context, *pgx.ConnConfig) error) connect {
	return func(ctx context.Context) (*pgx.Conn, error) {
		config := config.Copy()
		config.OnNotification = nil                         // one that is set receives them in place of the connection
		config.DefaultQueryExecMode = pgx.QueryExecModeExec // a pooler may be between
		if err := logIn(ctx, config); err != nil {
			return nil, err
		}
		return pgx.ConnectConfig(ctx, config)
	}
}

// nameOf returns the name of a database for errors.
func nameOf(config *pgx.ConnConfig) string {
	if config == nil {
		return "postgres"
	}
	var hosts []string
	add := func(host string, port uint16) {
		if !strings.HasPrefix(host, "/") {
			host = net.JoinHostPort(host, strconv.Itoa(int(port)))
		}
		if !slices.Contains(hosts, host) { // with TLS, and without
			hosts = append(hosts, host)
		}
	}
	add(config.Host, config.Port)
	for _, other := range config.Fallbacks {
		add(other.Host, other.Port)
	}
	return "postgres at " + strings.TrimSuffix(strings.Join(hosts, ",")+"/"+config.Database, "/")
}

func newFrame(name string, config *pgx.ConnConfig, explain func(error) (error, bool)) *frame.Frame {
	f := frame.New(frame.Config{Name: name, Drift: frame.Clocks, Explain: explain, PushesWithCalls: true})
	if config != nil {
		f.Hide(config.Password)
	}
	return f
}

// An engine is routines.Engine with pushes.
type engine struct {
	routines.Engine
	listener   listener
	migrations []string
	trusting   bool
}

// hideUser masks a user in errors in the forms in which pgx and the server write one. The bare word stays: it is often
// postgres, which occurs elsewhere too.
func hideUser(f *frame.Frame, user string) {
	if user != "" {
		f.Hide("user=" + user)
		f.Hide(strconv.Quote(user))
		f.Hide(`"` + user + `"`)
	}
}

// open prepares the database for use and returns the store.
func (e *engine) open(ctx context.Context, config *pgx.ConnConfig, s *settings) (*sqlstore.Store, error) {
	e.migrations, e.trusting = s.migrations, s.trusting
	e.Dialect = routines.Dialect{
		Text: text, Format: 1 + len(e.migrations), Leading: e.Leading, Unsent: e.Unsent,
		RolledBack: isRolledBack, Demoted: isDemoted,
	}
	e.Left = e.listener.leave
	explain := explain
	if s.credentials != nil {
		explain = explainRotating
	}
	e.Frame = newFrame(nameOf(config), config, explain)
	for _, user := range s.lone {
		hideUser(e.Frame, user)
	}
	s.hide = e.HidePassword
	e.Prefix = s.prefix
	e.listener.frame, e.listener.inbox, e.listener.wake = e.Frame, strings.ToLower(rand.Text()), make(chan struct{}, 1)
	e.Inbox = e.listener.address
	if s.listen != "" {
		at, err := store.ParseLocation(s.listen)
		if err == nil && at.Scheme != "postgres" && at.Scheme != "postgresql" {
			err = errors.New("the URL is not one of a postgres store")
		}
		if err == nil {
			config, err = configOf(at)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listen: %w", err), e.Engine.Close())
		}
		e.Frame.Hide(config.Password)
		hideUser(e.Frame, at.LoneUser())
		e.listener.connect = connectTo(config, s.logIn)
	}
	return dbserver.Open(ctx, e, &e.Engine, e.prepare)
}

// Notify implements sqlstore.Engine.
func (e *engine) Notify(fn func(store.ID, store.Status)) { e.listener.notify.Store(&fn) }

// Listen implements sqlstore.Engine.
func (e *engine) Listen() bool { return e.listener.start() }
