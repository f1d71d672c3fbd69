package redlock

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// MinTTL is the shortest ttl of a claim. The longest is the deployment's max-ttl.
const MinTTL = 100 * time.Millisecond

// DefaultMaxTTL is the max-ttl of a deployment that was given none. LongestMaxTTL is the greatest that it can be given.
const (
	DefaultMaxTTL = time.Minute
	LongestMaxTTL = 24 * time.Hour
)

// settings are what options and parameters of the URL set.
type settings struct {
	prefix  string
	maxTTL  time.Duration
	unsaved bool
	timeout time.Duration
	allowed []string // doubts that are no reason to refuse a node
	logger  *slog.Logger
	way     rediswire.Way
}

// An Option is a setting of a store.
type Option func(*settings)

// Prefix is put before each name to make its key, as it is: end it with a separator that no name begins with.
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// MaxTTL is the longest ttl of a claim, and for how long a node has no vote that was restarted or has lost its data. It is
// a fixed setting of the deployment: all clients must have the same, and a node refuses one that has another. The default
// is DefaultMaxTTL.
func WithMaxTTL(d time.Duration) Option { return func(s *settings) { s.maxTTL = d } }

// UnsavedTokens gives a lock also when its token could not be written to a majority together with it, because another one
// has overtaken it; otherwise that costs a second round trip. Tokens may then fall from one holder to the next, so that a
// fence is of no use. All clients of a deployment should have the same.
func WithUnsavedTokens() Option { return func(s *settings) { s.unsaved = true } }

// NodeTimeout is how long one node may take to answer before it counts as failed. The default is a twentieth of the ttl,
// and 50 ms at most. It is for nodes that are far away: a majority must answer within it.
func WithNodeTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// AllowReplicas allows nodes that have replicas, or that Sentinel watches. A failover to a replica loses what it had not
// received yet, and two may hold one lock.
func WithReplicasAllowed() Option {
	return func(s *settings) { s.allowed = append(s.allowed, "replicas") }
}

// AllowEviction allows nodes that may throw away locks when their memory is full. Then two may hold one lock.
func WithEvictionAllowed() Option {
	return func(s *settings) { s.allowed = append(s.allowed, "eviction") }
}

// Logger is where warnings about the nodes go. The default is slog's.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

func newSettings(options []Option) settings {
	set := settings{maxTTL: DefaultMaxTTL}
	for _, o := range options {
		o(&set)
	}
	return set
}

// check refuses settings that make no sense.
func (s *settings) check() error {
	switch {
	case s.maxTTL < MinTTL || s.maxTTL > LongestMaxTTL || s.maxTTL%time.Millisecond != 0:
		return fmt.Errorf("max-ttl is a duration from %v to %v in whole milliseconds, as in max-ttl=60s", MinTTL, LongestMaxTTL)
	case s.timeout < 0 || s.timeout > s.maxTTL/2:
		return fmt.Errorf("timeout is a duration of at most half of max-ttl (%v), as in timeout=200ms", s.maxTTL)
	case s.prefix != "":
		return store.CheckName(s.prefix)
	}
	return nil
}
