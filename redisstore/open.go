package redisstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

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

// New makes a store of a client that stays the caller's: Close does not close it. The store takes two connections of
// its own out of the client's blocking pool, in a cluster for each node.
//
// Of a client that follows Sentinel the store asks every second to which server it leads now, and leaves every other.
// So it leaves a master that was replaced a second after the client has, and not before: rueidis listens to one
// sentinel and believes it. A store that was opened with redis+sentinel:// listens to all of them.
func New(ctx context.Context, client rueidis.Client, options ...Option) (*Store, error) {
	set := settings{inCluster: client.Mode() == rueidis.ClientModeCluster}
	set.apply(options)
	addresses := slices.Sorted(maps.Keys(client.Nodes()))
	b := newBase("redis at "+strings.Join(addresses, ","), set)
	if set.inCluster {
		c := b.newCluster(addresses, nil)
		c.give(client)
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

// A Path says how servers are reached, for a program that has a way of its own: another client library (see
// [github.com/holdfast-go/holdfast/redisstore/goredis]), a tunnel, credentials that change.
type Config struct {
	// Addresses are that of the server, or those of some nodes of a cluster.
	Addresses []string
	Cluster   bool

	// Dial connects to an address, with TLS if that is spoken there. It may lead elsewhere, as to whatever server is
	// the master now. Its context is not the connection's.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	// Info is what the server that Dial leads to now answers to INFO. It is asked every second, so that the store
	// leaves a server that was replaced, also where that one lives on and does not know of it. nil: the store leaves a
	// server only when a connection ends, or when it has become a replica. In a cluster it is not asked.
	Info func(ctx context.Context) (string, error)

	// Credentials are asked for by each new connection; nil: there are none.
	Credentials func(ctx context.Context) (user, password string, err error)

	DB int
}

// Through opens a store over a path. The store's connections are its own, and end with it.
func Open(ctx context.Context, path Config, options ...Option) (*Store, error) {
	if len(path.Addresses) == 0 || path.Dial == nil || path.Cluster && path.DB != 0 || !path.Cluster && len(path.Addresses) > 1 {
		return nil, errors.New("holdfast: a path has a way to connect, and one address or those of a cluster, which has no databases")
	}
	set := settings{way: rediswire.Way{Path: path.Dial}, inCluster: path.Cluster}
	set.apply(options)
	b := newBase("redis at "+strings.Join(path.Addresses, ","), set)
	reach := rueidis.ClientOption{InitAddress: path.Addresses, SelectDB: path.DB}
	if path.Credentials != nil {
		var passwords rotation
		reach.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			ctx, cancel := context.WithTimeout(b.frame.Life(), dialTimeout)
			defer cancel()
			user, password, err := path.Credentials(ctx)
			passwords.hide(b, password)
			return rueidis.AuthCredentials{Username: user, Password: password}, err
		}
	}
	return b.openAt(ctx, reach, path.Info)
}

// A rotation is passwords that change. Each is hidden from errors for as long as a connection may still be refused that
// was made with it, and not for ever.
type rotation struct {
	mu     sync.Mutex
	latest []string
}

// mostPasswords is more than there are connections being made at the same time, each with a password of its own.
const mostPasswords = 256

// hide notes a password, and forgets the oldest.
func (r *rotation) hide(b *base, password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.latest, password); i >= 0 {
		r.latest = append(slices.Delete(r.latest, i, i+1), password)
		return
	}
	b.frame.Hide(password)
	if r.latest = append(r.latest, password); len(r.latest) > mostPasswords {
		b.frame.Unhide(r.latest[0])
		r.latest = slices.Delete(r.latest, 0, 1)
	}
}

// openURL opens the store at a URL.
func openURL(ctx context.Context, at store.Location) (store.Store, error) {
	reach, set, err := parse(at)
	if err != nil {
		return nil, err
	}
	s, err := newBase(displayName(at.Scheme, reach), set).openAt(ctx, reach, nil)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openAt opens a store with clients of its own. info is that of a Path.
func (b *base) openAt(ctx context.Context, reach rueidis.ClientOption, info func(context.Context) (string, error)) (
	*Store, error) {
	// A user without a password is most often a password in the wrong place.
	b.frame.Hide(cmp.Or(reach.Password, reach.Username))
	b.frame.Hide(cmp.Or(reach.Sentinel.Password, reach.Sentinel.Username))
	dial := b.way.Dial
	clients := func(address string) (rueidis.Client, bool, error) {
		own := reach
		own.InitAddress = []string{address}
		client, err := rediswire.NewClient(b.frame.Life(), dialTimeout, own, dial)
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

// Scripts lets a fence.Key use a rueidis client, for one server or for a cluster.
//
//	stock := fence.Key{Redis: redisstore.Scripts{Client: client}, Name: "{stock:42}:fence"}
type Scripts struct{ Client rueidis.Client }

var errCrossSlot = errors.New("CROSSSLOT the keys do not have one hash tag")

// Eval runs a script on the master that has the keys. The server is sent its text only if it does not know it yet. It
// is never repeated: what was not answered may have been done.
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
