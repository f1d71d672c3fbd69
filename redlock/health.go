package redlock

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// NodeState says how a node stands.
type NodeState uint8

// The states of a node.
const (
	Ill         NodeState = iota // it has no vote, and Err says why
	Voting                       // it has a vote
	Quarantined                  // it was restarted or has lost its data, and has no vote for Wait
	NeedsMark                    // its quarantine is served; the next client that uses it gives it its vote back
	Fresh                        // it was never used, or has lost all data; without Init its first use begins a quarantine
)

var nodeStates = [...]string{"ill", "voting", "quarantined", "needs mark", "fresh"}

// String is the state's word in errors and listings.
func (s NodeState) String() string {
	if int(s) < len(nodeStates) {
		return nodeStates[s]
	}
	return "unknown state"
}

// A NodeHealth is how one node stands.
type NodeHealth struct {
	Address string
	State   NodeState
	Wait    time.Duration // Quarantined: how long it still has no vote; Fresh: how long it would have none without Init
	Mark    uint64        // the highest ticket known there; 0: not known
	Trusted time.Duration // how much longer a restart is believed to keep all data; 0: it is not
	Version string        // of Redis, or as in "Valkey 8.0.1"; empty: not known
	Ahead   time.Duration // how far its clock is ahead of this machine's, give or take the time of a message
	Took    time.Duration // how long it took to answer
	Missed  bool          // it did not count when this client last renewed a lock: one that is held is in jeopardy
	Doubts  []string      // what is unwise about it, as in "it has 1 replica"
	Err     error         // Ill: why
}

// healthTimeout is how long a node may take to say how it is, a new connection included.
const healthTimeout = 2 * time.Second

// Health asks all nodes at once how they are, in the order in which they were given. A node that does not answer within two
// seconds is Ill.
func (s *Store) Health(ctx context.Context) []NodeHealth {
	all := make([]NodeHealth, len(s.nodes))
	var asked sync.WaitGroup
	for i, n := range s.nodes {
		asked.Go(func() { all[i] = s.examine(ctx, n) })
	}
	asked.Wait()
	return all
}

// examine asks one node.
func (s *Store) examine(ctx context.Context, n *node) NodeHealth {
	h := NodeHealth{Address: n.address, Missed: n.missed.Load()}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	began := time.Now()
	a, w, err := n.ask(ctx, &vote.Request{Op: vote.Look, MaxTTL: s.maxTTL})
	if h.Took = time.Since(began); err != nil {
		a = vote.Answer{Code: vote.Failed, Err: err}
	}
	if w != nil {
		h.Version, h.Ahead = w.Info.Version(), w.Info.Ahead()
	}
	if err := s.ill(&a); err != nil {
		h.Err = s.frame.Mask(err)
		return h
	}
	s.notice(n.index, &a)
	h.State, h.Wait, h.Mark = stateOf(&a), a.Wait, a.Mark
	answers := w.DoAll(ctx, []rueidis.Completed{
		w.B().Get().Key(recordKey).Build(),
		w.B().Info().Build(),
	})
	if record, err := answers[0].Text(); err == nil {
		h.Trusted = max(0, trusted(record)-time.Duration(w.Info.Now().UnixNano()))
	}
	if text, err := answers[1].Text(); err == nil {
		info := rediswire.ReadInfo(text)
		for _, d := range doubts(ctx, w, &info) {
			h.Doubts = append(h.Doubts, d.text)
		}
	}
	return h
}

// stateOf is how a node stands that answered.
func stateOf(a *vote.Answer) NodeState {
	switch {
	case a.Votes:
		return Voting
	case a.Episode == vote.Episode{}:
		return Fresh
	case a.NeedsMark():
		return NeedsMark
	}
	return Quarantined
}

// trusted is up to when a restart is believed, since 1970 by the node's clock, by a record as node.lua has it; 0: it is not.
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
