package redisstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

func init() {
	for _, form := range []string{"", "s", "+unix", "+sentinel", "s+sentinel", "+cluster", "s+cluster"} {
		store.Register("redis"+form, openURL)
		store.Register("valkey"+form, openURL)
	}
}

// Open opens the store at a URL, as the package documentation describes it, with connections of its own. Options are
// applied after the parameters of the URL. The error is about the URL or an option, that of ctx, or a *store.Fault if
// the server cannot be reached or cannot keep locks. No error shows a password.
func Open(ctx context.Context, url string, options ...Option) (*Store, error) {
	at, err := store.ParseLocation(url)
	if err != nil {
		return nil, err
	}
	return openLocation(ctx, at, options...)
}

// openURL is the function that is registered for the URLs of this package.
func openURL(ctx context.Context, at store.Location) (store.Store, error) {
	s, err := openLocation(ctx, at)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openLocation opens the store at a parsed URL. It returns an error if the URL or an option is invalid, or if the store
// cannot be opened.
func openLocation(ctx context.Context, at store.Location, options ...Option) (*Store, error) {
	reach, set, err := parse(at, options...)
	if err != nil {
		return nil, err
	}
	return newBase(displayName(at.Scheme, reach), set).openAt(ctx, reach, nil)
}

// New returns a store over a client of rueidis. The client remains the caller's: Close of the store does not close it.
// The store takes two connections from the client's blocking pool, in a cluster two for each node.
//
// If the client follows Sentinel, the store asks it once per second which server it leads to, and leaves every other
// server. So the store leaves a master that was replaced up to a second after the client has, and not before: rueidis
// subscribes to a single sentinel and believes it. A store that was opened with redis+sentinel:// subscribes to all.
func New(ctx context.Context, client rueidis.Client, options ...Option) (*Store, error) {
	set := settings{inCluster: client.Mode() == rueidis.ClientModeCluster}
	set.apply(options)
	if set.credentials != nil {
		return nil, errors.New("holdfast: WithCredentials is for a store that makes its own connections; " +
			"a client has credentials of its own")
	}
	addresses := slices.Sorted(maps.Keys(client.Nodes()))
	b := newBase("redis at "+strings.Join(addresses, ","), set)
	if set.inCluster {
		c := b.newCluster(addresses, nil)
		c.useClient(client)
		b.topology = c
		return b.open(ctx)
	}
	one := b.newSingle()
	one.home = b.newNode("", client, false)
	if client.Mode() == rueidis.ClientModeSentinel {
		one.info = func(ctx context.Context) (string, error) {
			return client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
		}
	}
	b.topology = one
	return b.open(ctx)
}

// A Config describes how to connect to servers, for a program that dials by itself: through a tunnel, or as another
// client library does (see [github.com/holdfast-go/holdfast/redisstore/goredis]).
type Config struct {
	// Addresses has the address of the server, or the addresses of some nodes of the cluster.
	Addresses []string
	Cluster   bool

	// User and Password are for a login with fixed credentials. [WithCredentials] is for those that change.
	User, Password string

	// DB is the number of the database. A cluster has only 0.
	DB int

	// Dial connects to an address, over TLS if the server expects that. It may connect to another server, such as
	// the current master. Its context does not bound the life of the connection.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	// Info returns the response to INFO of the server that Dial would connect to now. If it is not nil, it is called
	// once per second, and the store leaves every other server, even one that is still alive and does not know that
	// it was replaced. If it is nil, the store leaves a server only when the connection ends, or when the server has
	// become a replica. In a cluster it is not called.
	Info func(ctx context.Context) (string, error)
}

// check returns an error if the configuration is incomplete or contradicts itself.
func (c *Config) check() error {
	switch {
	case c.Dial == nil:
		return errors.New("holdfast: Config.Dial is missing")
	case len(c.Addresses) == 0:
		return errors.New("holdfast: Config.Addresses is empty")
	case !c.Cluster && len(c.Addresses) > 1:
		return errors.New("holdfast: Config.Addresses has several addresses, which is for a cluster (Config.Cluster)")
	case c.Cluster && c.DB != 0:
		return errors.New("holdfast: Config.DB is set, and a cluster has no databases")
	}
	return nil
}

// OpenConfig opens a store with connections that config.Dial makes. They are closed with the store.
func OpenConfig(ctx context.Context, config Config, options ...Option) (*Store, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	set := settings{way: rediswire.Way{Path: config.Dial}, inCluster: config.Cluster}
	set.apply(options)
	b := newBase("redis at "+strings.Join(config.Addresses, ","), set)
	reach := rueidis.ClientOption{
		InitAddress: config.Addresses, SelectDB: config.DB, Username: config.User, Password: config.Password,
	}
	return b.openAt(ctx, reach, config.Info)
}

// openAt opens a store with clients of its own. info is Config.Info.
func (b *base) openAt(ctx context.Context, reach rueidis.ClientOption, info func(context.Context) (string, error)) (
	*Store, error) {
	rediswire.LogIn(b.frame.Life(), &reach, b.credentials, b.frame)
	b.frame.Hide(cmp.Or(reach.Sentinel.Password, reach.Sentinel.Username))
	dial := b.way.Dial
	clients := func(address string) (rueidis.Client, bool, error) {
		own := reach
		own.InitAddress = []string{address}
		client, err := rediswire.NewClient(b.frame.Life(), rediswire.DialTimeout, own, dial)
		return client, true, err
	}
	if b.inCluster {
		b.topology = b.newCluster(reach.InitAddress, clients)
		return b.open(ctx)
	}
	one := b.newSingle()
	one.info = info
	b.topology = one
	if reach.Sentinel.MasterSet != "" {
		s := b.newSentinels(reach)
		one, dial, b.topology = s.single, s.dial, s
		reach.InitAddress, reach.Sentinel = []string{s.master}, rueidis.SentinelOption{}
	}
	client, owned, err := clients(reach.InitAddress[0])
	if err != nil {
		b.frame.End()
		return nil, err
	}
	one.home = b.newNode("", client, owned)
	return b.open(ctx)
}

// Scripts runs the scripts of a fence.Key over a rueidis client, for one server or for a cluster.
//
//	stock := fence.Key{Redis: redisstore.Scripts{Client: client}, Name: "{stock:42}:fence"}
type Scripts struct{ Client rueidis.Client }

var errCrossSlot = errors.New("CROSSSLOT the keys do not have one hash tag")

// Eval runs a script on the master that has the keys. It sends the text of the script only if the server does not know
// the script yet. It never retries: a call without a response may have been carried out.
func (s Scripts) Eval(ctx context.Context, script string, keys, args []string) (any, error) {
	if s.Client.Mode() == rueidis.ClientModeCluster {
		for _, key := range keys {
			if slotOf(key) != slotOf(keys[0]) {
				return nil, errCrossSlot // rueidis would panic
			}
		}
	}
	answer, err := rueidis.NewLuaScript(script).Exec(ctx, s.Client, keys, args).ToAny()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return answer, err
}
