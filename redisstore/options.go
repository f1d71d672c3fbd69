package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// settings are what options and the parameters of a URL set.
type settings struct {
	prefix         string
	guard          time.Duration // the startup delay
	refuseEviction bool
	replicaSettings
	plain       *plainSettings // nil: queues are kept
	inCluster   bool           // whether the addresses are those of a cluster
	credentials rediswire.Credentials
	logger      *slog.Logger
	way         rediswire.Way
}

// plainSettings are for plain mode.
type plainSettings struct {
	on     bool
	prefix string // precedes names without any change
	retry  time.Duration
	drift  float64
	value  func(store.Claim) string
}

// The defaults of plain mode.
const (
	defaultRetry = 100 * time.Millisecond
	defaultDrift = 0.01
)

// An Option is a setting of a store.
type Option func(*settings)

// WithPrefix separates tenants: stores with different prefixes never see each other's names.
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// WithStartupDelay has the store grant nothing for d after the server has started or has lost its data. If d is not
// below the longest ttl, no lease from before can overlap with a lease from after. All clients of a server must have
// the same delay. It is startup-delay in a URL.
func WithStartupDelay(d time.Duration) Option { return func(s *settings) { s.guard = d } }

// WithWaitReplicas makes a grant or a renewal count only when n replicas have acknowledged it within the timeout.
// Otherwise the call returns an error, and the claim is withdrawn, or is not renewed. If n is the number of all
// replicas, a failover to any of them loses no grant. All clients of a server must have the same n. In a URL they are
// wait-replicas and wait-timeout.
func WithWaitReplicas(n int, timeout time.Duration) Option {
	return func(s *settings) { s.replicaSettings = replicaSettings{n, timeout} }
}

// WithEvictionRefused refuses a server that may evict locks when its memory is full. Without it the store logs a
// warning. In a cluster each master is checked, and calls for the names that it keeps are refused. It is
// eviction=refuse in a URL.
func WithEvictionRefused() Option { return func(s *settings) { s.refuseEviction = true } }

// WithCredentials has each new connection log in with the user and the password that get returns, for passwords that
// change. An empty user stands for the one of the URL. While get fails, or the server refuses what it returned, calls
// fail with a [store.Fault] that is not final. get is called by several goroutines at once. It is for a store that
// makes its own connections; [New] returns an error. In a URL, password-file names a file with the password, which is
// read for each new connection.
func WithCredentials(get func(ctx context.Context) (user, password string, err error)) Option {
	return func(s *settings) { s.credentials = get }
}

// WithLogger sets the logger for warnings about the server. The default is that of slog.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

// WithPlainMode keeps each lock in one key, as other libraries do, instead of a queue. The package documentation
// describes what holds then. It is mode=plain in a URL.
func WithPlainMode() Option { return func(s *settings) { s.forPlain().on = true } }

// WithRetry is for plain mode. It sets how long a waiter pauses before it checks again whether another library has
// released the lock; the pause varies at random from half of d to one and a half of it. The default is 100 ms.
func WithRetry(d time.Duration) Option { return func(s *settings) { s.forPlain().retry = d } }

// WithDrift is for plain mode. It sets the part of the ttl by which a lease ends before the server lets it expire, for
// clocks that differ in pace. The default is 0.01, as in other libraries.
func WithDrift(part float64) Option { return func(s *settings) { s.forPlain().drift = part } }

// WithValue is for plain mode. It sets the function that makes the value of a lock's key, for a program whose other
// parts read or compare the value. It is called once for each claim that joins. No two claims may have the same value,
// or one could release what the other holds; the claim's ID makes them differ. Such a lock does not show its owner and
// cannot be broken. The function must not call the store.
func WithValue(of func(store.Claim) string) Option {
	return func(s *settings) { s.forPlain().value = of }
}

// forPlain returns the settings of plain mode for an option to change.
func (s *settings) forPlain() *plainSettings {
	if s.plain == nil {
		s.plain = &plainSettings{retry: defaultRetry, drift: defaultDrift}
	}
	return s.plain
}

// apply applies the options. It is called once. In plain mode the prefix belongs to the keys of locks alone: all other
// keys are shared by all prefixes, since one prefix may be the beginning of another.
func (s *settings) apply(options []Option) {
	for _, o := range options {
		o(s)
	}
	if s.plain != nil && s.plain.on {
		s.plain.prefix, s.prefix = s.prefix, ""
	}
}

// check returns an error if settings are invalid, or contradict each other.
func (s *settings) check() error {
	if s.prefix != "" {
		if err := store.CheckName(s.prefix); err != nil {
			return err
		}
	}
	if err := s.replicaSettings.check(); err != nil {
		return err
	}
	p := s.plain
	switch {
	case p == nil:
		return nil
	case s.inCluster:
		return fmt.Errorf("%w: plain mode is for one server; mode=queue, the default, works in a cluster",
			store.ErrUnsupported)
	case !p.on:
		return fmt.Errorf("%w: WithRetry, WithDrift and WithValue are for plain mode (WithPlainMode)",
			store.ErrUnsupported)
	case s.guard != 0:
		return fmt.Errorf("%w: plain mode has no startup delay, which other libraries would ignore; "+
			"mode=queue, the default, has one", store.ErrUnsupported)
	case p.retry <= 0:
		return errors.New("retry is a positive duration, as in retry=100ms")
	case !(p.drift >= 0 && p.drift <= 0.5):
		return errors.New("drift is a part of the ttl from 0 to 0.5, as in drift=0.01")
	case p.prefix != "":
		return store.CheckName(p.prefix)
	}
	return nil
}
