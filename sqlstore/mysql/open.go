package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/holdfast-go/holdfast/internal/dbserver"
	"github.com/holdfast-go/holdfast/internal/endpoint"
	"github.com/holdfast-go/holdfast/internal/tlsurl"
	"github.com/holdfast-go/holdfast/sqlstore"
	"github.com/holdfast-go/holdfast/sqlstore/routines"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

func init() {
	store.Register("mysql", openURL)
	store.Register("mariadb", openURL)
}

const (
	dialTimeout = 5 * time.Second

	// serverTimeout bounds connecting to one of several servers.
	serverTimeout = time.Second
)

// An Option configures a store.
type Option func(*settings)

type settings struct {
	prefix      string
	credentials Credentials
	dial        func(ctx context.Context, network, address string) (net.Conn, error) // nil: as usual
	hide        func(password string)
}

// WithPrefix sets a prefix that separates tenants: stores with different prefixes never see each other's names.
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// Credentials is a function that returns a user and a password. If the user is empty, the user of the URL is used.
type Credentials func(ctx context.Context) (user, password string, err error)

// WithCredentials sets a function that returns user and password; it is called for each new connection. It is for
// passwords that change.
func WithCredentials(get Credentials) Option { return func(s *settings) { s.credentials = get } }

// settingsOf returns the settings that the options make.
func settingsOf(options []Option) (s settings) {
	for _, o := range options {
		o(&s)
	}
	return s
}

// openURL is the function that is registered for the URLs of this package.
func openURL(ctx context.Context, at store.Location) (store.Store, error) {
	s, err := openAt(ctx, at, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Open returns a store in the database at a URL such as mysql://user:password@host:3306/database. It creates the tables
// and procedures if they are missing and the user may create them. It returns a *store.Fault if the server cannot be
// reached, refuses the user or is too old, and store.ErrFormat if a newer version has made the tables.
func Open(ctx context.Context, url string, options ...Option) (*sqlstore.Store, error) {
	at, err := store.ParseLocation(url)
	if err != nil {
		return nil, err
	}
	return openAt(ctx, at, options)
}

func openAt(ctx context.Context, at store.Location, more []Option) (*sqlstore.Store, error) {
	if err := at.Allow("tls", "ca", "cert", "key", "server-name", "password-file", "socket"); err != nil {
		return nil, err
	}
	options := []Option{WithPrefix(at.Prefix)}
	if file := at.Query.Get("password-file"); file != "" {
		options = append(options, WithCredentials(endpoint.PasswordFile(file)))
	}
	s := settingsOf(append(options, more...))
	c, err := connectorOf(at, &s)
	if err != nil {
		return nil, err
	}
	db := dbserver.Bound(sql.OpenDB(c))
	e := &routines.Engine{DB: db, Owned: true, MaxIdle: dbserver.MaxConnections, Frame: newFrame(c.name)}
	s.hide = e.HidePassword
	password, _ := at.User.Password()
	e.Frame.Hide(password)
	if user := at.LoneUser(); user != "" {
		e.Frame.Hide("'" + user + "'") // as the server writes it; the bare name may be part of other words
	}
	return open(ctx, e, &s)
}

// New returns a store in a database that the program has opened. The store uses connections of its pool: while the
// program's own queries use all of them, no lease can be renewed. Closing the store does not close the database. No
// statement stays prepared: each call takes two round trips, or one if the program's DSN has interpolateParams=true.
// Errors are those of [Open].
func New(ctx context.Context, db *sql.DB, options ...Option) (*sqlstore.Store, error) {
	s := settingsOf(options)
	return open(ctx, &routines.Engine{DB: db, Frame: newFrame("mysql")}, &s)
}

func newFrame(name string) *frame.Frame {
	return frame.New(frame.Config{Name: name, Drift: frame.Clocks, Explain: explain, PushesWithCalls: true})
}

// open prepares the database for use and returns the store.
func open(ctx context.Context, e *routines.Engine, s *settings) (*sqlstore.Store, error) {
	e.Dialect = routines.Dialect{
		Text: text, Format: format, Prepare: e.Owned, Grouped: true, Unsent: true,
		RolledBack: isRolledBack, Demoted: isDemoted, Stuck: isStuck,
	}
	e.Prefix = s.prefix
	return dbserver.Open(ctx, engine{e}, e, func(ctx context.Context) error { return prepare(ctx, e, migrations) })
}

// A connector connects to the first of several servers that is writable.
type connector struct {
	name     string // of the store, in errors
	settings *settings
	servers  []*mysql.Config
	last     atomic.Int64 // the server to try first
}

// connectorOf returns the connector for a URL. Its errors contain nothing of the URL.
func connectorOf(at store.Location, s *settings) (*connector, error) {
	database, err := at.Database()
	if err != nil {
		return nil, err
	}
	base := mysql.NewConfig()
	base.User = at.User.Username()
	base.Passwd, _ = at.User.Password()
	base.DBName = database
	base.Timeout = dialTimeout
	base.Logger = &mysql.NopLogger{} // errors are returned too
	base.DialFunc = s.dial
	base.Params = map[string]string{"innodb_lock_wait_timeout": "5"} // a call that was given up waits on in the server
	if err := setTLS(base, at); err != nil {
		return nil, err
	}
	base.Net = "tcp"
	addresses := endpoint.WithPorts(at.Hosts, "3306")
	if len(addresses) == 0 {
		addresses = []string{"127.0.0.1:3306"}
	}
	if socket := at.Query.Get("socket"); socket != "" {
		base.Net, addresses = "unix", []string{socket}
	}
	c := &connector{settings: s, name: "mysql at " + strings.Join(addresses, ",") + "/" + base.DBName}
	for _, address := range addresses {
		config := base.Clone()
		config.Addr = address
		c.servers = append(c.servers, config)
	}
	return c, nil
}

// setTLS configures TLS by the parameters of the URL. The default is preferred, as in other clients: TLS if the server
// has it.
func setTLS(config *mysql.Config, at store.Location) error {
	files := slices.ContainsFunc([]string{"ca", "cert", "key", "server-name"}, at.Query.Has)
	mode := at.Query.Get("tls")
	if mode == "" {
		mode = "preferred"
		if files {
			mode = "true"
		}
	}
	var err error
	switch mode {
	case "false":
		if files {
			return errors.New("tls=false does not go with ca, cert, key or server-name")
		}
		return nil
	case "true":
		config.TLS, err = tlsurl.Config(at)
		config.AllowCleartextPasswords = true // tokens are sent so, to a server whose certificate was verified
	case "skip-verify", "preferred":
		if config.TLS, err = tlsurl.Config(at); err == nil {
			config.TLS.InsecureSkipVerify = true //nolint:gosec // the URL requests it
			config.AllowFallbackToPlaintext = mode == "preferred"
		}
	default:
		return errors.New("tls is true, skip-verify, preferred or false")
	}
	return err
}

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	var user, password string
	var failed error
	if c.settings.credentials != nil {
		if user, password, failed = c.settings.credentials(ctx); failed != nil {
			return nil, failed
		}
		c.settings.hide(password)
	}
	first := int(c.last.Load())
	for i := range c.servers {
		index := (first + i) % len(c.servers)
		config := c.servers[index].Clone()
		if c.settings.credentials != nil {
			config.User, config.Passwd = cmp.Or(user, config.User), password
		}
		conn, err := c.connect(ctx, config, len(c.servers)-i)
		if err == nil {
			c.last.Store(int64(index))
			return conn, nil
		}
		c.last.CompareAndSwap(int64(index), int64((index+1)%len(c.servers)))
		failed = cmp.Or(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// connect connects to a server. If there are several, the server must not be read-only, and the time is divided among
// the toCome servers that are still to be tried, this one included.
func (c *connector) connect(ctx context.Context, config *mysql.Config, toCome int) (driver.Conn, error) {
	server, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	if len(c.servers) == 1 {
		return server.Connect(ctx)
	}
	patience := serverTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)/time.Duration(toCome))
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := server.Connect(within)
	if err == nil {
		if err = checkWritable(within, conn); err != nil {
			_ = conn.Close()
		}
	}
	switch {
	case err == nil:
		return conn, nil
	case within.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("%s: %w", config.Addr, &store.NoResponseError{After: patience.Round(time.Millisecond)})
	}
	return nil, err
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// isReadOnly is an SQL expression: whether the server is read-only. A user with special privileges could still write.
const isReadOnly = "CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF')"

// checkWritable returns errReadOnly for a server that is read-only.
func checkWritable(ctx context.Context, conn driver.Conn) error {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, "SELECT "+isReadOnly, nil)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // the row was read
	value := make([]driver.Value, 1)
	if err := rows.Next(value); err != nil {
		return err
	}
	if only, err := driver.Bool.ConvertValue(value[0]); err != nil || only == true {
		return cmp.Or(err, errReadOnly)
	}
	return nil
}
