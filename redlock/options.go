package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// minTTL is the shortest ttl of a claim. The longest is the max-ttl of the deployment.
const minTTL = 100 * time.Millisecond

// defaultMaxTTL is the max-ttl of a deployment that has no other. longestMaxTTL is the greatest value that it can have.
const (
	defaultMaxTTL = time.Minute
	longestMaxTTL = 24 * time.Hour
)

// settings are what options and the parameters of a URL set.
type settings struct {
	prefix      string
	maxTTL      time.Duration
	unsaved     bool
	timeout     time.Duration
	allowed     []string // warnings for which a node is not refused
	credentials rediswire.Credentials
	logger      *slog.Logger
	way         rediswire.Way
}

// An Option is a setting of a store.
type Option func(*settings)

// WithPrefix puts prefix before each name to make its key, without any change: end it with a separator that no name
// begins with.
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// WithMaxTTL sets the longest ttl of a claim, which is also how long a node has no vote after it was restarted or has
// lost its data. It is a fixed setting of the deployment: all clients must have the same, and a node refuses a client
// that has another. The default is a minute, and the longest is a day. It is max-ttl in a URL.
func WithMaxTTL(d time.Duration) Option { return func(s *settings) { s.maxTTL = d } }

// WithUnsavedTokens grants a lock even if its token could not be written to a majority together with it, because
// another token has overtaken it. Otherwise that costs a second round trip. With it tokens may fall from one holder to
// the next, so that a fence is useless. All clients of a deployment should have the same setting. It is tokens=unsaved
// in a URL.
func WithUnsavedTokens() Option { return func(s *settings) { s.unsaved = true } }

// WithNodeTimeout sets how long a node may take to respond before it counts as failed. The default is a twentieth of
// the ttl, and 50 ms at most. It is for nodes that are far away: a majority must respond within it. It is node-timeout
// in a URL.
func WithNodeTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// WithReplicasAllowed allows nodes that have replicas, or that Sentinel watches. A failover to a replica loses what the
// replica has not received yet, and then two clients may hold one lock. It is allow=replicas in a URL.
func WithReplicasAllowed() Option {
	return func(s *settings) { s.allowed = append(s.allowed, "replicas") }
}

// WithEvictionAllowed allows nodes that may evict locks when their memory is full. Then two clients may hold one lock.
// It is allow=eviction in a URL.
func WithEvictionAllowed() Option {
	return func(s *settings) { s.allowed = append(s.allowed, "eviction") }
}

// WithCredentials has each new connection to a node log in with the user and the password that get returns, for
// passwords that change. An empty user stands for the one of the URL. While get fails, or a node refuses what it
// returned, that node is failing. get is called by several goroutines at once. It is for a store that makes its own
// connections; [New] returns an error. In a URL, password-file names a file with the password, which is read for each
// new connection.
func WithCredentials(get func(ctx context.Context) (user, password string, err error)) Option {
	return func(s *settings) { s.credentials = get }
}

// WithLogger sets the logger for warnings about the nodes. The default is that of slog.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

// apply applies the options.
func (s *settings) apply(options []Option) {
	for _, o := range options {
		o(s)
	}
}

// check returns an error if a setting is invalid.
func (s *settings) check() error {
	switch {
	case s.maxTTL < minTTL || s.maxTTL > longestMaxTTL || s.maxTTL%time.Millisecond != 0:
		return fmt.Errorf("max-ttl is a duration from %v to %v in whole milliseconds, as in max-ttl=60s",
			minTTL, longestMaxTTL)
	case s.timeout < 0 || s.timeout > s.maxTTL/2:
		return fmt.Errorf("node-timeout is a duration of at most half of max-ttl (%v), as in node-timeout=200ms",
			s.maxTTL)
	case s.prefix != "":
		return store.CheckName(s.prefix)
	}
	return nil
}
