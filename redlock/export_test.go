package redlock

import (
	"context"
	"time"
)

// OpenDetour opens the store at a URL over other addresses than those it names.
func OpenDetour(ctx context.Context, url string, detour func(address string) string,
	options ...Option) (*Store, error) {
	return Open(ctx, url, append(options, func(s *settings) { s.way.Detour = detour })...)
}

// Bids is how many claims a store knows.
func (s *Store) Bids() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.claims)
}

// Listening is how many claims are to be woken by a release.
func (s *Store) Listening() int { return s.subscriptions.Waiting() }

// FewUnder is how many requests may always be in progress at a node.
const FewUnder = alwaysInFlight

// What nodes keep.
const (
	RecordKey  = recordKey
	LeftPrefix = leftPrefix
	FreedTopic = freedTopic
)

// SetPoll sets how long a claim that waits goes without a look of its own. It is for a store that nobody uses yet.
func (s *Store) SetPoll(d time.Duration) { s.rules.Poll = d }

// Busy reports whether requests are in progress to any node, or what they were answered is just being thought about.
func (s *Store) Busy() bool { return s.inFlight.Load() > 0 }

// Resting is how many senders wait for something to send.
func (s *Store) Resting() int64 { return s.resting.Load() }

// MostResting is how many senders rest at most.
const MostResting = maxResting

// Under is how many requests are in progress to a node.
func (s *Store) Under(node int) int64 { return s.nodes[node].inFlight.Load() }

// Connected reports whether there is a connection for commands to a node.
func (s *Store) Connected(node int) bool {
	_, ok := s.nodes[node].commands.Live()
	return ok
}
