package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
)

// errUnusable is why a server is no node, whatever is allowed.
var errUnusable = errors.New("it cannot be a node")

// usable says whether a server can be a node at all.
func usable(info *rediswire.Info) error {
	mode, role := info.Mode(), info.Get("role")
	lacks := info.Lacks()
	switch {
	case mode == "sentinel":
		return errors.New("it is a Sentinel, which keeps no data; name masters that nobody watches")
	case mode == "cluster":
		return errors.New("it is a node of a cluster, which moves keys and fails over; redlock needs masters of their own")
	case lacks != nil:
		return lacks
	case role != "" && role != "master":
		return errors.New("it is a replica, and no vote of its own; redlock needs independent masters")
	case info.OlderThan(6, 2):
		return fmt.Errorf("it is %s, and Redis 6.2 is the oldest that will do", info)
	}
	return nil
}

// single refuses a connection to a server that another address leads to as well: it would have two votes.
func (s *Store) single(n *node, w *wire) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.wires {
		if i == n.index || other == nil || other.Info.Get("run_id") != w.Info.Get("run_id") {
			continue
		}
		select {
		case <-other.Dead():
		default:
			return fmt.Errorf("it is the same server as %s: it would have two votes", s.nodes[i].address)
		}
	}
	s.wires[n.index] = w
	return nil
}

// A doubt is something unwise about a node. Allow is the word of the option that allows it.
type doubt struct{ text, why, allow string }

// sentinelTopic is a channel on which every Sentinel listens at the masters that it watches.
const sentinelTopic = "__sentinel__:hello"

// doubts are what is unwise about a node. Whether Sentinel watches it can be seen by a user who may run PUBSUB NUMSUB, and
// by no other.
func doubts(ctx context.Context, w *wire, info *rediswire.Info) (all []doubt) {
	const failover = "a failover loses locks that the replica has not received yet, and the old master may go on voting"
	if n, _ := strconv.Atoi(info.Get("connected_slaves")); n > 0 {
		text := "it has 1 replica"
		if n > 1 {
			text = fmt.Sprintf("it has %d replicas", n)
		}
		all = append(all, doubt{text, failover, "replicas"})
	}
	if heard, err := w.Do(ctx, w.B().PubsubNumsub().Channel(sentinelTopic).Build()).List(); err == nil && len(heard) == 2 {
		if n, _ := heard[1].Number(); n > 0 {
			all = append(all, doubt{"a Sentinel watches it", failover, "replicas"})
		}
	}
	if info.Evicts() {
		all = append(all, doubt{
			"when its memory is full it throws away keys, and locks with them, by the policy " + info.Get("maxmemory_policy"),
			"set maxmemory-policy to noeviction", "eviction",
		})
	}
	return all
}

// farOff is how far the clock of a node may be off before somebody should know. Locks do not depend on it; a token that is
// a day ahead of the clock of a majority is refused there.
const farOff = 10 * time.Second

// judge refuses a node about which something is unwise that was not allowed, and warns about what was.
func (s *Store) judge(ctx context.Context, n *node, w *wire) error {
	for _, d := range doubts(ctx, w, &w.Info) {
		if !slices.Contains(s.allowed, d.allow) {
			return fmt.Errorf("%s: %s (allow=%s lets it pass)", d.text, d.why, d.allow)
		}
		s.warn(n, "locks may be lost: "+d.text)
	}
	if ahead := w.Info.Ahead(); ahead.Abs() > farOff {
		s.warn(n, "the clock of a node differs from this machine's", "ahead", ahead.Round(time.Second))
	}
	return nil
}
