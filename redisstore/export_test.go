package redisstore

import (
	"context"
	"crypto/sha1"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// LeaveText is the script that Leave runs.
var LeaveText = leaveScript.Text()

// ProbeText is the script that shows whether a server is suitable, and ProbeName is what the server knows it by.
var (
	ProbeText = probeScript.Text()
	ProbeName = fmt.Sprintf("%x", sha1.Sum([]byte(ProbeText)))
)

// KeysOf are the keys of a queue.
func KeysOf(prefix, name string) []string {
	k := newKeySpace(prefix)
	l := k.line(name)
	return []string{l, l + ":r", l + ":o", l + ":d"}
}

// OpenThrough opens a store that is called by its URL and connects to another address, such as that of a proxy.
func OpenThrough(ctx context.Context, at store.Location, address string) (*Store, error) {
	options, set, err := parse(at)
	if err != nil {
		return nil, err
	}
	b := newBase(displayName(at.Scheme, options), set)
	options.InitAddress[0] = address
	return b.openAt(ctx, options, nil)
}

// OpenDetour opens a store whose connections go where detour says, such as to a proxy for each server.
func OpenDetour(ctx context.Context, at store.Location, detour func(address string) string) (*Store, error) {
	options, set, err := parse(at)
	if err != nil {
		return nil, err
	}
	set.way.Detour = detour
	return newBase(displayName(at.Scheme, options), set).openAt(ctx, options, nil)
}

// Topic is the channel that the store's pushes come over, on a single server.
func (s *Store) Topic() string { return s.mode.(*lines).topology.keysFor("").topic }

// Mark is the key of the mark on a single server.
func Mark(prefix string) string { k := newKeySpace(prefix); return k.mark }

// Run is the key of the server's run on a single server.
func Run(prefix string) string { k := newKeySpace(prefix); return k.run }

// Switches returns how many calls to a single server have waited for another goroutine to write or to read for them.
func Switches(s *Store) int64 {
	w, _ := s.mode.(*lines).topology.(*single).home.commands.Current()
	return w.Switches()
}

// PlainClaims returns how many claims a store in plain mode knows.
func PlainClaims(s *Store) int {
	p := s.mode.(*plainMode) //nolint:forcetypeassert // the test has opened it so
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bids)
}
