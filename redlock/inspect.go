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

// errUnusable is why a server cannot be a node, whatever options allow.
var errUnusable = errors.New("it cannot be a node")

// usable returns an error if a server cannot be a node at all.
func usable(info *rediswire.Info) error {
	mode, role := info.Mode(), info.Get("role")
	lacks := info.Lacks()
	switch {
	case mode == "sentinel":
		return errors.New("it is a Sentinel, which keeps no data; name masters that no Sentinel watches")
	case mode == "cluster":
		return errors.New("it is a node of a cluster, which moves keys and fails over; " +
			"redlock needs masters of their own")
	case lacks != nil:
		return lacks
	case role != "" && role != "master":
		return errors.New("it is a replica and has no vote of its own; redlock needs independent masters")
	case info.OlderThan(6, 2):
		return fmt.Errorf("it is %s, and Redis 6.2 is the oldest version that is supported", info)
	}
	return nil
}

// checkDistinct returns an error if another address leads to the same server, which would then have two votes.
func (s *Store) checkDistinct(n *node, w *connection) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.conns {
		if i == n.index || other == nil || other.Info.Get("run_id") != w.Info.Get("run_id") {
			continue
		}
		select {
		case <-other.Dead():
		default:
			return fmt.Errorf("it is the same server as %s: it would have two votes", s.nodes[i].address)
		}
	}
	s.conns[n.index] = w
	return nil
}

// A risk is a property of a node that endangers locks. Allow is the value of the parameter allow that accepts it.
type risk struct{ text, why, allow string }

// sentinelTopic is a channel that every Sentinel subscribes to at the masters that it watches.
const sentinelTopic = "__sentinel__:hello"

// risksOf returns the risks of a node. Only a user with the permission for PUBSUB NUMSUB can see whether Sentinel
// watches it.
func risksOf(ctx context.Context, w *connection, info *rediswire.Info) (all []risk) {
	const failover = "a failover loses locks that the replica has not received yet, and the old master may go on voting"
	if n, _ := strconv.Atoi(info.Get("connected_slaves")); n > 0 {
		text := "it has 1 replica"
		if n > 1 {
			text = fmt.Sprintf("it has %d replicas", n)
		}
		all = append(all, risk{text, failover, "replicas"})
	}
	if heard, err := w.Do(ctx, w.B().PubsubNumsub().Channel(sentinelTopic).Build()).List(); err == nil &&
		len(heard) == 2 {
		if n, _ := heard[1].Number(); n > 0 {
			all = append(all, risk{"a Sentinel watches it", failover, "replicas"})
		}
	}
	if info.Evicts() {
		text := "when its memory is full it evicts keys, and locks with them, by the policy " +
			info.Get("maxmemory_policy")
		all = append(all, risk{text, "set maxmemory-policy to noeviction", "eviction"})
	}
	return all
}

// clockTolerance is how far the clock of a node may differ before a warning is logged. Locks do not depend on it; a
// token that is a day ahead of the clock of a majority is refused there.
const clockTolerance = 10 * time.Second

// checkRisks returns an error if a node has a risk that is not allowed, and logs a warning for each that is.
func (s *Store) checkRisks(ctx context.Context, n *node, w *connection) error {
	for _, d := range risksOf(ctx, w, &w.Info) {
		if !slices.Contains(s.allowed, d.allow) {
			return fmt.Errorf("%s: %s (allow=%s lets it pass)", d.text, d.why, d.allow)
		}
		s.warn(n, "locks may be lost: "+d.text)
	}
	if ahead := w.Info.Ahead(); ahead.Abs() > clockTolerance {
		s.warn(n, "the clock of a node differs from this machine's", "ahead", ahead.Round(time.Second))
	}
	return nil
}
