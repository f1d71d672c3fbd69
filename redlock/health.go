package redlock

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// A NodeState is the state of a node.
type NodeState uint8

// The states of a node.
const (
	Failing     NodeState = iota // it cannot be used, and Err is the reason
	Voting                       // it has a vote
	Quarantined                  // it was restarted or has lost its data, and has no vote for NoVoteFor
	Rejoining                    // its quarantine is over; the next client that uses it gives it its vote back
	// It was never used, or has lost all data. Without Init its first use begins a quarantine.
	Fresh
)

var nodeStates = [...]string{"failing", "voting", "quarantined", "rejoining", "fresh"}

// String returns the name of the state for errors and listings.
func (s NodeState) String() string {
	if int(s) < len(nodeStates) {
		return nodeStates[s]
	}
	return "unknown state"
}

// A NodeHealth describes the state of one node.
type NodeHealth struct {
	Address string
	State   NodeState
	// Quarantined: how much longer it has no vote; Fresh: how long it would have none without Init
	NoVoteFor  time.Duration
	Mark       uint64        // the highest ticket known there; 0: unknown
	TrustedFor time.Duration // how much longer a restart is trusted to keep all data; 0: it is not
	Version    string        // of Redis, or as in "Valkey 8.0.1"; empty: unknown
	Ahead      time.Duration // how far its clock is ahead of this machine's, to within the time of a message
	Latency    time.Duration // how long it took to respond
	// It did not count when this client last renewed a lock: a lock that is held is in jeopardy.
	MissedRenewal bool
	Warnings      []string // risks for locks, as in "it has 1 replica"
	Err           error    // Failing: the reason
}

// healthTimeout bounds how long a node may take to report its health, including a new connection.
const healthTimeout = 2 * time.Second

// Health requests the state of all nodes at once, and returns it in the order in which they were given. A node that
// does not respond within two seconds is Failing.
func (s *Store) Health(ctx context.Context) []NodeHealth {
	all := make([]NodeHealth, len(s.nodes))
	s.eachNode(func(i int, n *node) { all[i] = s.healthOf(ctx, n) })
	return all
}

// healthOf requests and returns the state of one node. A node that does not respond is Failing.
func (s *Store) healthOf(ctx context.Context, n *node) NodeHealth {
	h := NodeHealth{Address: n.address, MissedRenewal: n.missed.Load()}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	began := time.Now()
	a, w, err := n.request(ctx, &vote.Request{Op: vote.Look, MaxTTL: s.maxTTL})
	if h.Latency = time.Since(began); err != nil {
		a = vote.Answer{Code: vote.Failed, Err: err}
	}
	if w != nil {
		h.Version, h.Ahead = w.Info.Version(), w.Info.Ahead()
	}
	if err := s.failure(&a); err != nil {
		h.Err = s.frame.Mask(err)
		return h
	}
	s.observe(n.index, &a)
	h.State, h.NoVoteFor, h.Mark = stateOf(&a), a.Wait, a.Mark
	answers := w.DoAll(ctx, []rueidis.Completed{
		w.B().Get().Key(recordKey).Build(),
		w.B().Info().Build(),
	})
	if record, err := answers[0].Text(); err == nil {
		h.TrustedFor = max(0, trusted(record)-time.Duration(w.Info.Now().UnixNano()))
	}
	if text, err := answers[1].Text(); err == nil {
		info := rediswire.ReadInfo(text)
		for _, d := range risksOf(ctx, w, &info) {
			h.Warnings = append(h.Warnings, d.text)
		}
	}
	return h
}

// stateOf returns the state of a node from its response.
func stateOf(a *vote.Answer) NodeState {
	switch {
	case a.Votes:
		return Voting
	case a.Episode == vote.Episode{}:
		return Fresh
	case a.NeedsMark():
		return Rejoining
	}
	return Quarantined
}

// trusted returns until when a restart is trusted, as the time since 1970 by the node's clock, from a record that
// node.lua wrote. It returns 0 if a restart is not trusted.
func trusted(record string) time.Duration {
	word := strings.Fields(record)
	if len(word) != 7 || word[0] != "1" {
		return 0
	}
	n, err := strconv.ParseInt(word[6], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}
