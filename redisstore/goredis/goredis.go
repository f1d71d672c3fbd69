// Package goredis keeps locks where a go-redis client leads: to a server, to what Sentinel watches, or to a cluster.
//
//	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"}) // or NewFailoverClient, NewClusterClient, NewUniversalClient
//	s, err := goredis.New(ctx, client)
//	locks := holdfast.New(s)
//
// The store takes from the client how servers are reached: addresses, dialer, TLS, user and password or whoever provides
// them, database, and for a failover client who is the master now. The connections that it makes that way are its own,
// two for each server. They are not in the client's pool, its hooks do not see them, and its timeouts and retries do not
// apply: a lock needs to know which run of the server a connection leads to, and go-redis replaces connections unseen.
// The client stays the caller's, and must not be closed before the store. Where go-redis speaks TLS it does not stop
// connecting before its DialTimeout is over, and so long Close of the store may take.
//
// A failover client is asked every second, by an INFO, to which server it leads now, and the store leaves every other. So it
// leaves a master that was replaced and lives on a second after go-redis has, and not before: go-redis listens to one
// sentinel and believes it, also one that is cut off. A store that was opened with redis+sentinel:// listens to all of them.
//
// It is a package of its own, so that go-redis comes along only for those who use it.
package goredis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// New makes a store of a client for one server, for what Sentinel watches, or for a cluster.
func New(ctx context.Context, client redis.UniversalClient, options ...redisstore.Option) (*redisstore.Store, error) {
	path, err := pathOf(client)
	if err != nil {
		return nil, err
	}
	return redisstore.Open(ctx, path, options...)
}

// failoverAddr is what go-redis calls the address of a failover client, whose dialer knows better.
const failoverAddr = "FailoverClient"

// pathOf is how a client reaches its servers.
func pathOf(client redis.UniversalClient) (path redisstore.Config, err error) {
	var dial func(ctx context.Context, network, address string) (net.Conn, error)
	network := "tcp"
	var who identity
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		path.Addresses, path.DB = []string{o.Addr}, o.DB
		if o.Addr == failoverAddr {
			path.Info = func(ctx context.Context) (string, error) { return c.Info(ctx, "server").Result() }
		}
		dial, network = o.Dialer, o.Network
		who = identity{o.Username, o.Password, o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider != nil}
	case *redis.ClusterClient:
		o := c.Options()
		if o.ClusterSlots != nil {
			return path, fmt.Errorf("%w: a cluster client that is told who keeps what, as NewFailoverClusterClient makes; "+
				"NewFailoverClient will do", store.ErrUnsupported)
		}
		path.Addresses, path.Cluster = o.Addrs, true
		if dial = o.Dialer; dial == nil {
			dial = redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: o.TLSConfig})
		}
		who = identity{o.Username, o.Password, o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider != nil}
	default:
		return path, fmt.Errorf("%w: a %T; a client for one server, for Sentinel or for a cluster will do", store.ErrUnsupported, client)
	}
	path.Dial = func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, network, address) }
	path.Credentials, err = who.credentials()
	return path, err
}

// An identity is what go-redis may be told of who it is.
type identity struct {
	user, password string
	provider       func() (user, password string)
	withContext    func(context.Context) (user, password string, err error)
	streaming      bool
}

// credentials are as go-redis would choose them.
func (i identity) credentials() (func(context.Context) (user, password string, err error), error) {
	switch {
	case i.streaming:
		return nil, fmt.Errorf("%w: credentials that are streamed; CredentialsProviderContext will do", store.ErrUnsupported)
	case i.withContext != nil:
		return i.withContext, nil
	case i.provider != nil:
		return func(context.Context) (string, string, error) {
			user, password := i.provider()
			return user, password, nil
		}, nil
	case i.password != "":
		return func(context.Context) (string, string, error) { return i.user, i.password, nil }, nil
	}
	return nil, nil //nolint:nilnil // nobody has to be anybody
}
