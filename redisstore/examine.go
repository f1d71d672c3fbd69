package redisstore

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

var _ store.Examiner = (*Store)(nil)

// Examine implements store.Examiner. It reads INFO and CONFIG of each server that keeps locks, and the keys under the
// names of Holdfast.
func (b *base) Examine(ctx context.Context) (all []store.Finding) {
	space := census{own: b.keys.lines}
	masters := 0
	err := b.topology.each(ctx, func(n *node) error {
		masters++
		conn, err := n.commands.Get(ctx)
		if err != nil {
			return err
		}
		e := rediswire.Examination{Node: n.address, Replicas: b.replicas, Delay: b.guard}
		all = append(all, e.Of(ctx, conn)...)
		return space.add(ctx, conn)
	})
	if err != nil {
		all = append(all, store.Finding{
			Check: "server", Level: store.Warn,
			Found: "a server could not be examined: " + b.frame.Fault(ctx, err).Error(),
			Why:   "names that it keeps cannot be locked while it is away",
			Fix:   "start it, or let a replica take its place",
		})
	}
	switch t := b.topology.(type) {
	case *sentinels:
		all = append(all, t.examine(ctx))
	case *cluster:
		all = append(all, t.examine(ctx, masters))
	}
	return append(all, space.finding())
}

// examine reports how many sentinels respond and agree.
func (s *sentinels) examine(ctx context.Context) store.Finding {
	said, lost := s.queryAll(ctx, 0)
	masters := map[string]int{}
	for _, one := range said {
		masters[one.address]++
	}
	f := store.Finding{Check: "majority"}
	switch n := len(s.addresses); {
	case len(said) < n:
		f.Level = store.Warn
		f.Found = fmt.Sprintf("%d of %d sentinels of the URL respond: %v", len(said), n, lost)
		f.Why = "fewer failures are left until no failover is possible"
		f.Fix = "start the sentinels, or correct the URL"
		if !s.isMajority(len(said)) {
			f.Level = store.Fail
			f.Why = "without a majority no failover happens: when the master dies, no lock is granted"
		}
	case len(masters) > 1:
		f.Level = store.Warn
		f.Found = fmt.Sprintf("the sentinels name %d different masters", len(masters))
		f.Why = "a failover is under way, or a sentinel is cut off and names the old master"
		f.Fix = "run doctor again; then SENTINEL MASTER NAME at each sentinel"
	case n < 3:
		f.Level = store.Warn
		f.Found = fmt.Sprintf("the URL names %d sentinels, and they agree", n)
		f.Why = "with fewer than three sentinels no failure of one is survived"
		f.Fix = "run three sentinels, and name all of them in the URL"
	default:
		f.Found = fmt.Sprintf("%d of %d sentinels respond and name the same master", len(said), n)
	}
	return f
}

// examine reports whether the cluster serves all slots.
func (c *cluster) examine(ctx context.Context, masters int) store.Finding {
	f := store.Finding{Check: "majority", Found: fmt.Sprintf("%d masters keep all slots", masters)}
	if err := c.refresh(ctx); err != nil {
		f.Level, f.Found = store.Fail, "no node of the cluster reports which keeps what: "+err.Error()
		f.Why, f.Fix = "no lock can be acquired", "start the nodes"
		return f
	}
	kept := 0
	for slot := range c.slots {
		if c.slots[slot].Load() != nil {
			kept++
		}
	}
	switch {
	case kept < slotCount:
		f.Level = store.Fail
		f.Found = fmt.Sprintf("%d of %d slots are kept by a master", kept, slotCount)
		f.Why = "names in the other slots cannot be locked"
		f.Fix = "redis-cli --cluster fix HOST:PORT"
	case masters < 3:
		f.Level = store.Warn
		f.Why = "a majority of masters must agree on a failover; of fewer than three none may fail"
		f.Fix = "use three masters or more"
	}
	return f
}

// A census counts the keys under the names of Holdfast.
type census struct {
	own       string // what keys of this tenant's queues begin with: others may not be readable
	keys      int
	foreign   []string // keys that no version known here writes
	permanent []string // keys of queues that never expire
	partial   bool
	err       error
}

const (
	censusWithin = 3 * time.Second
	censusPage   = 1000
	mostCounted  = 50_000
)

// ownKey is what a key of this package or of package redlock looks like.
var ownKey = regexp.MustCompile(`^holdfast:\{[^{}]*\}(:[rod]|:mark(:.*)?|:run(:.*)?|:id|:plain.*|:redlock.*)?$`)

// add counts the keys of one server.
func (c *census) add(ctx context.Context, conn rediswire.Doer) error {
	ctx, cancel := context.WithTimeout(ctx, censusWithin)
	defer cancel()
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		command := conn.B().Scan().Cursor(cursor).Match(`holdfast:*`).Count(censusPage).Build()
		next, keys, err := readScan(conn.Do(ctx, command))
		if err == nil {
			err = c.count(ctx, conn, keys)
		}
		if ctx.Err() != nil || c.keys > mostCounted {
			c.partial = true
			return nil
		}
		if err != nil {
			c.err, _ = explain(err)
			return nil
		}
		cursor = next
	}
	return nil
}

// count adds these keys to the census.
func (c *census) count(ctx context.Context, conn rediswire.Doer, keys []string) error {
	var queues []string
	var ask []rueidis.Completed
	for _, key := range keys {
		c.keys++
		if !ownKey.MatchString(key) {
			c.foreign = append(c.foreign, key)
		} else if strings.HasPrefix(key, c.own) {
			queues = append(queues, key)
			ask = append(ask, conn.B().Pttl().Key(key).Build())
		}
	}
	if len(ask) == 0 {
		return nil
	}
	for i, answer := range conn.DoAll(ctx, ask) {
		left, err := answer.Int64()
		if err != nil {
			return err
		}
		if left == -1 {
			c.permanent = append(c.permanent, queues[i])
		}
	}
	return nil
}

// finding returns what the census has found.
func (c *census) finding() store.Finding {
	f := store.Finding{Check: "keys", Found: fmt.Sprintf("%d keys begin with holdfast:, all of them known and with an "+
		"expiry where they "+
		"need one", c.keys)}
	if c.partial {
		f.Found = fmt.Sprintf("of the keys that begin with holdfast:, %d were looked at, and there are more", c.keys)
	}
	switch {
	case c.err != nil:
		f.Level, f.Found = store.Warn, "the keys cannot be listed: "+c.err.Error()
		f.Why, f.Fix = "holdfast ls needs that; locks do not", "grant +scan and +pttl to this user"
	case len(c.permanent) > 0:
		f.Level = store.Warn
		f.Found = fmt.Sprintf("%d keys of queues never expire, such as %s", len(c.permanent),
			store.Quote(c.permanent[0]))
		f.Why = "they were changed by hand (PERSIST, RESTORE, SET); a claim in them may never expire, and block " +
			"its name"
		f.Fix = "holdfast show NAME; if it is not in use: DEL KEY"
	case len(c.foreign) > 0:
		f.Level = store.Warn
		f.Found = fmt.Sprintf("%d keys begin with holdfast: and are not Holdfast's, such as %s", len(c.foreign),
			store.Quote(c.foreign[0]))
		f.Why = "another program writes where locks are kept, and may overwrite them"
		f.Fix = "give the other program another prefix, or locks a database of their own (redis://HOST/1)"
	}
	return f
}
