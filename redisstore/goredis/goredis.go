// Package goredis keeps locks in Redis over a go-redis client: for one server, for a master that Sentinel watches, or
// for a cluster.
//
//	// or NewFailoverClient, NewClusterClient, NewUniversalClient
//	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
//	s, err := goredis.New(ctx, client)
//	locks := holdfast.New(s)
//
// The store takes from the client how to connect: addresses, dialer, TLS, user and password or their provider,
// database, and for a failover client the current master. The connections that it makes are its own, two for each
// server. They are not in the client's pool, its hooks do not see them, and its timeouts and retries do not apply: the
// store must know which run of the server a connection leads to, and go-redis replaces connections without notice. The
// client remains the caller's, and must not be closed before the store. Over TLS, go-redis does not stop connecting
// before its DialTimeout has passed, so that Close of the store may take that long.
//
// For a failover client the store sends an INFO through the client once per second, to learn which server it leads to,
// and leaves every other server. So it leaves a master that was replaced and is still alive up to a second after
// go-redis has, and not before: go-redis subscribes to a single sentinel and believes it, even if that one is cut off.
// A store that was opened with redis+sentinel:// subscribes to all sentinels.
//
// It is a separate package so that only its importers depend on go-redis.
package goredis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// New returns a store over a client for one server, for a master that Sentinel watches, or for a cluster. Any other
// client is refused with [store.ErrUnsupported].
func New(ctx context.Context, client redis.UniversalClient, options ...redisstore.Option) (*redisstore.Store, error) {
	config, credentials, err := configOf(client)
	if err != nil {
		return nil, err
	}
	if credentials != nil {
		options = append([]redisstore.Option{redisstore.WithCredentials(credentials)}, options...)
	}
	return redisstore.OpenConfig(ctx, config, options...)
}

// failoverAddr is the address of a failover client of go-redis, whose dialer finds the master.
const failoverAddr = "FailoverClient"

// credentials return the user and the password for a new connection.
type credentials = func(context.Context) (user, password string, err error)

// configOf returns how a client connects to its servers. The credentials are nil if they do not change.
func configOf(client redis.UniversalClient) (config redisstore.Config, get credentials, err error) {
	var dial func(ctx context.Context, network, address string) (net.Conn, error)
	network := "tcp"
	var from providers
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		config.Addresses, config.DB = []string{o.Addr}, o.DB
		config.User, config.Password = o.Username, o.Password
		if o.Addr == failoverAddr {
			config.Info = func(ctx context.Context) (string, error) { return c.Info(ctx, "server").Result() }
		}
		dial, network = o.Dialer, o.Network
		from = providers{o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider != nil}
	case *redis.ClusterClient:
		o := c.Options()
		if o.ClusterSlots != nil {
			return config, nil, fmt.Errorf("%w: a cluster client with its own ClusterSlots, as of "+
				"NewFailoverClusterClient; use NewFailoverClient", store.ErrUnsupported)
		}
		config.Addresses, config.Cluster = o.Addrs, true
		config.User, config.Password = o.Username, o.Password
		if dial = o.Dialer; dial == nil {
			dial = redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
		}
		from = providers{o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider != nil}
	default:
		return config, nil, fmt.Errorf("%w: a %T; use a client for one server, for Sentinel or for a cluster",
			store.ErrUnsupported, client)
	}
	config.Dial = func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, network, address) }
	if get, err = from.credentials(); config.Password == "" || get != nil {
		config.User, config.Password = "", "" // go-redis does not log in with them either
	}
	return config, get, err
}

// providers are where a go-redis client may get credentials that change.
type providers struct {
	provider    func() (user, password string)
	withContext func(context.Context) (user, password string, err error)
	streaming   bool
}

// credentials returns the provider that go-redis would choose, or nil if there is none.
func (p providers) credentials() (credentials, error) {
	switch {
	case p.streaming:
		return nil, fmt.Errorf("%w: streamed credentials; use CredentialsProviderContext", store.ErrUnsupported)
	case p.withContext != nil:
		return p.withContext, nil
	case p.provider != nil:
		return func(context.Context) (string, string, error) {
			user, password := p.provider()
			return user, password, nil
		}, nil
	}
	return nil, nil //nolint:nilnil // there need not be any
}
