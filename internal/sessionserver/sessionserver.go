// Package sessionserver has what the stores on servers with sessions share beside store/sessionqueue, which not all of
// them are built on: how they are opened, and what they can do.
package sessionserver

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// Register registers a store under the schemes of its URLs. parse reads a URL, and start opens the store with these
// settings.
func Register[T any, S store.Store](
	parse func(store.Location) (T, error), start func(context.Context, T) (S, error), schemes ...string,
) {
	open := func(ctx context.Context, at store.Location) (store.Store, error) {
		set, err := parse(at)
		if err != nil {
			return nil, err
		}
		s, err := start(ctx, set)
		if err != nil {
			return nil, err // and not s, which would be an interface with a nil pointer
		}
		return s, nil
	}
	for _, scheme := range schemes {
		store.Register(scheme, open)
	}
}

// CheckPrefix returns an error if a prefix cannot separate tenants. An empty one stands for no prefix.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return store.CheckName(prefix)
}

// Abilities returns the abilities that follow from keeping claims in sessions of this ttl, at servers that decide by
// majority. mostTTL is the greatest ttl of a session. Queue, Shared, Detach and the takeover are the store's to set.
func Abilities(f *frame.Frame, identity string, ttl, mostTTL time.Duration) store.Abilities {
	return store.Abilities{
		Store: f.Name, Identity: identity, MinTTL: ttl, MaxTTL: mostTTL, SessionTTL: ttl,
		Tokens: store.SurvivesRestart | store.SurvivesClockBack | store.SurvivesFailover,
	}
}

// Clock returns the finding about clocks where time is that of a session with this ttl.
func Clock(ttl time.Duration) store.Finding {
	found := fmt.Sprintf("time is the session's, which the leader counts (ttl %v): no clock can be wrong", ttl)
	return store.Finding{Check: "clock", Found: found}
}

// Warn makes a finding a warning: why it matters for locks, and what to do.
func Warn(f *store.Finding, why, fix string) { f.Level, f.Why, f.Fix = store.Warn, why, fix }
