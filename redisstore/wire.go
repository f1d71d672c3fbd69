package redisstore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
)

// What this package needs of connections has a package of its own; here is what they are called.
var (
	errCut       = rediswire.ErrCut
	errReplica   = rediswire.ErrReplica
	errCluster   = rediswire.ErrCluster
	errUnplugged = rediswire.ErrUnplugged
	errShape     = rediswire.ErrShape
)

type (
	plug      = rediswire.Plug[*wire]
	script    = rediswire.Script
	execution = rediswire.Execution
)

const dialTimeout = rediswire.DialTimeout

// A wire is one connection to a server, with what is known of it.
type wire struct {
	*rediswire.Wire
	run    string                         // which run of the server it leads to, as the scripts want it: "1 RUN "
	slots  *[slotCount / 64]atomic.Uint64 // in a cluster: where it has arrived
	joins  *[slotCount]atomic.Int64       // in a cluster: when a slot was last joined in, after made
	probed atomic.Bool                    // in a cluster: the node does what the scripts need
	made   time.Time
	topics *topics // of a connection for pushes
	rounds *rounds // for what replicas must acknowledge; nil: what is asked is sent at once
}

// newWire makes a connection for a plug.
func newWire(p *plug, client rueidis.Client, hooks rueidis.PubSubHooks) (*wire, *Server, error) {
	w, err := rediswire.Connect(&p.Tasks, client, hooks)
	if err != nil {
		return nil, nil, err
	}
	return &wire{Wire: w, run: runText(&w.Info), slots: &[slotCount / 64]atomic.Uint64{}, made: time.Now()}, newServer(&w.Info), nil
}

// Do sends a command and waits for its answer, or until ctx is done.
func (w *wire) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if w.rounds != nil {
		return w.rounds.do(ctx, command)[0]
	}
	return w.Wire.Do(ctx, command)
}

// DoAll sends several commands at once.
func (w *wire) DoAll(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	if w.rounds != nil {
		return w.rounds.do(ctx, commands...)
	}
	return w.Wire.DoAll(ctx, commands)
}

// serverMillis is the server's time as far as can be told from here. It is for people only.
func (w *wire) serverMillis() int64 { return w.Info.Now().UnixMilli() }

// arrived notes that the mark of a slot has been looked at over this connection.
func (w *wire) arrived(slot int) { w.slots[slot/64].Or(1 << (slot % 64)) }

func (w *wire) hasArrived(slot int) bool { return w.slots[slot/64].Load()&(1<<(slot%64)) != 0 }

// depart notes that the node does not have the slot any more. If it comes back, its mark has to be looked at anew.
func (w *wire) depart(slot int) { w.slots[slot/64].And(^uint64(1 << (slot % 64))) }

// shortestReign is less than it takes a node to become a replica, and the master again without what its own master knew.
const shortestReign = time.Second

// pace says whether the node has kept the slot without a break since it was last joined in: "calm" if that was a moment ago,
// otherwise "idle". A connection outlives what becomes of its node.
func (w *wire) pace(slot int, now time.Time) string {
	if now.Sub(w.made)-time.Duration(w.joins[slot].Load()) < shortestReign {
		return "calm"
	}
	return "idle"
}

// joinedIn notes that a Join was sent then, and answered.
func (w *wire) joinedIn(slot int, sent time.Time) { w.joins[slot].Store(int64(sent.Sub(w.made))) }
