package redisstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// settings are what options and parameters of the URL set.
type settings struct {
	prefix         string
	guard          time.Duration
	refuseEviction bool
	replicaSettings
	plain     *plainSettings // nil: a line is kept
	inCluster bool           // whether the addresses are those of a cluster
	logger    *slog.Logger
	way       rediswire.Way
}

// plainSettings are for plain mode.
type plainSettings struct {
	on     bool
	prefix string // put before names as it is
	retry  time.Duration
	drift  float64
	value  func(store.Claim) string
}

// What plain mode does unless it is told otherwise.
const (
	defaultRetry = 100 * time.Millisecond
	defaultDrift = 0.01
)

// An Option is a setting of a store.
type Option func(*settings)

// Prefix separates tenants: stores with different prefixes never see each other's names.
func WithPrefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// Guard lets nothing be granted for so long after the server was started, or has lost its data: as long as the longest
// ttl, it keeps a lease from before from overlapping with one from after. All clients of a server should have the same.
func WithStartupDelay(d time.Duration) Option { return func(s *settings) { s.guard = d } }

// WaitReplicas lets a grant or a renewal count only when n replicas have acknowledged it within the timeout. Otherwise
// it is an error, and the claim is withdrawn, or not renewed. With as many as there are replicas, a failover to any of
// them loses no grant. All clients of a server should have the same.
func WithReplicas(n int, timeout time.Duration) Option {
	return func(s *settings) { s.replicaSettings = replicaSettings{n, timeout} }
}

// RefuseEviction refuses a server that may throw away locks when its memory is full. Without it there is a warning. In
// a cluster that goes for each master: calls about the names that it keeps are refused.
func WithoutEviction() Option { return func(s *settings) { s.refuseEviction = true } }

// Logger is where warnings about the server go. The default is slog's.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

// WithPlainMode keeps each lock in one key, as other libraries do, instead of a line. The package's documentation says what
// holds then.
func WithPlainMode() Option { return func(s *settings) { s.forPlain().on = true } }

// Retry is for plain mode: how long a waiter pauses between two looks whether another library has released the lock, by
// chance from half as long to half as long again. The default is 100 ms.
func WithRetry(d time.Duration) Option { return func(s *settings) { s.forPlain().retry = d } }

// Drift is for plain mode: the part of the ttl by which a lease is over before the server lets it expire, for clocks
// that differ in pace. The default is 0.01, as in other libraries.
func WithDrift(part float64) Option { return func(s *settings) { s.forPlain().drift = part } }

// Value is for plain mode: it makes the value of a lock's key, in place of Holdfast's own, for a program that others
// read or compare the value with. It is called once for each claim, when it joins. No two claims may ever get the same
// value, or one could release what the other holds; the claim's ID is what makes them differ. Such a lock does not show
// its owner, nor can it be broken. It must not call the store.
func WithValue(of func(store.Claim) string) Option {
	return func(s *settings) { s.forPlain().value = of }
}

// forPlain are the settings of plain mode, to be changed.
func (s *settings) forPlain() *plainSettings {
	if s.plain == nil {
		s.plain = &plainSettings{retry: defaultRetry, drift: defaultDrift}
	}
	return s.plain
}

// apply applies the options. In plain mode the prefix belongs to the locks' keys alone: of what is beside them there is
// one for all, as prefixes may run together.
func (s *settings) apply(options []Option) {
	for _, o := range options {
		o(s)
	}
	if s.plain != nil && s.plain.on {
		s.plain.prefix, s.prefix = s.prefix, ""
	}
}

// check refuses settings that are wrong, or do not go together.
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
		return fmt.Errorf("%w: plain mode is for one server; mode=queue, which is the default, also keeps locks in a cluster", store.ErrUnsupported)
	case !p.on:
		return fmt.Errorf("%w: Retry, Drift and Value are for plain mode (WithPlainMode)", store.ErrUnsupported)
	case s.guard != 0:
		return fmt.Errorf("%w: plain mode has no guard: other libraries would not keep to it; mode=queue, which is the default, has one", store.ErrUnsupported)
	case p.retry <= 0:
		return errors.New("retry is a positive duration, as in retry=100ms")
	case !(p.drift >= 0 && p.drift <= 0.5):
		return errors.New("drift is a part of the ttl from 0 to 0.5, as in drift=0.01")
	case p.prefix != "":
		return store.CheckName(p.prefix)
	}
	return nil
}
