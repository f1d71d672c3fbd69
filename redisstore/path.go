package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
)

// A Path says how servers are reached, for a program that has a way of its own: another client library (see
// [github.com/holdfast-go/holdfast/redisstore/goredis]), a tunnel, credentials that change.
type Path struct {
	// Addresses are that of the server, or those of some nodes of a cluster.
	Addresses []string
	Cluster   bool

	// Dial connects to an address, with TLS if that is spoken there. It may lead elsewhere, as to whatever server is the
	// master now. Its context is not the connection's.
	Dial func(ctx context.Context, address string) (net.Conn, error)

	// Info is what the server that Dial leads to now answers to INFO. It is asked every second, so that the store leaves a
	// server that was replaced, also where that one lives on and does not know of it. nil: the store leaves a server only
	// when a connection ends, or when it has become a replica. In a cluster it is not asked.
	Info func(ctx context.Context) (string, error)

	// Credentials are asked for by each new connection; nil: there are none.
	Credentials func(ctx context.Context) (user, password string, err error)

	DB int
}

// Through opens a store over a path. The store's connections are its own, and end with it.
func Through(ctx context.Context, path Path, options ...Option) (*Store, error) {
	if len(path.Addresses) == 0 || path.Dial == nil || path.Cluster && path.DB != 0 || !path.Cluster && len(path.Addresses) > 1 {
		return nil, errors.New("holdfast: a path has a way to connect, and one address or those of a cluster, which has no databases")
	}
	set := settings{way: rediswire.Way{Path: path.Dial}, inCluster: path.Cluster}
	for _, o := range options {
		o(&set)
	}
	s := newStore("redis at "+strings.Join(path.Addresses, ","), set)
	reach := rueidis.ClientOption{InitAddress: path.Addresses, SelectDB: path.DB}
	if path.Credentials != nil {
		var passwords rotation
		reach.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			ctx, cancel := context.WithTimeout(s.frame.Life(), dialTimeout)
			defer cancel()
			user, password, err := path.Credentials(ctx)
			passwords.hide(s, password)
			return rueidis.AuthCredentials{Username: user, Password: password}, err
		}
	}
	if _, err := s.open(ctx, reach); err != nil {
		return nil, err
	}
	s.follow(path.Info)
	return s, nil
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
func (r *rotation) hide(s *Store, password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.latest, password); i >= 0 {
		r.latest = append(slices.Delete(r.latest, i, i+1), password)
		return
	}
	s.frame.Hide(password)
	if r.latest = append(r.latest, password); len(r.latest) > mostPasswords {
		s.frame.Unhide(r.latest[0])
		r.latest = slices.Delete(r.latest, 0, 1)
	}
}

// followEvery is how often to ask where a way leads to that is not the store's own.
const followEvery = time.Second

// follow asks to which run of which server the way leads now, until the store is closed, and leaves every other.
func (s *Store) follow(info func(context.Context) (string, error)) {
	if info == nil || s.home == nil {
		return
	}
	s.frame.Go(func() {
		for {
			select {
			case <-time.After(followEvery):
			case <-s.frame.Life().Done():
				return
			}
			ctx, cancel := context.WithTimeout(s.frame.Life(), followEvery)
			said, err := info(ctx)
			cancel()
			if run := runIn(said); err == nil && run != "" {
				s.home.keepTo(run, errSwitched)
			}
		}
	})
}

// runIn is the run of the server that INFO tells of, as a wire has it; "": it tells of none.
func runIn(info string) string {
	said := rediswire.ReadInfo(info)
	if said.Run() == "" {
		return ""
	}
	return runText(&said)
}
