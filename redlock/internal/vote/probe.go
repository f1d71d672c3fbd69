package vote

import "time"

// All waiters of a lock are notified of its release at the same time. If all of them then sent takes to all nodes, they
// would split the votes, and none would win. So a claim that has lost before begins with one node, the same for all
// claims on that key: the first claim there then has no competition at the others. If that node has published a release
// and now denies the key, another claim was faster, and the try ends there. So it is enough to be subscribed at that
// node. It is a matter of speed alone. Whatever the first node answers, or does not answer, a majority decides as
// always.

// probes reports whether a try begins with one node: when other waiters are likely to try at the same time. A claim
// that tries earlier than planned may know more than that node does.
func (c *Claim) probes(now time.Duration) bool {
	due := c.pacer.told>>c.pacer.awaited&1 != 0 || now >= c.pacer.again
	return c.tries > 1 && due && !c.rules.Without.Has(Jitter) // which is about split votes
}

// first returns the node that claims on a key begin with, unless it did not help lately: then the one after it, and so
// on.
func (c *Claim) first() int {
	var sum uint32 = 2166136261 // FNV-1a
	for i := range len(c.key) {
		sum = (sum ^ uint32(c.key[i])) * 16777619
	}
	node := int(sum % uint32(c.rules.Nodes)) //nolint:gosec // there are few nodes
	for range c.rules.Nodes {
		if c.avoided>>node&1 == 0 {
			break
		}
		node = (node + 1) % c.rules.Nodes
	}
	return node
}

// avoid records the nodes whose answer to a try was not the holder of the key.
func (c *Claim) avoid(h *attempt) {
	for i := range h.seats {
		switch s := &h.seats[i]; {
		case !s.touched:
		case s.granted || s.answered && s.reply.Code == Denied:
			c.avoided &^= 1 << i
		default:
			c.avoided |= 1 << i
		}
	}
}

// forgive is for a node that was only not among the first to answer: a try ends when enough have answered. Otherwise
// claims on a key would soon all begin with different nodes.
func (c *Claim) forgive(now time.Duration, h *attempt, node int, a *Answer) {
	if (a.Code == Granted || a.Code == Denied) && now < h.began+h.probeTime() {
		c.avoided &^= 1 << node
	}
}

// probeTime returns how long to wait for the first node alone.
func (h *attempt) probeTime() time.Duration { return h.Timeout(h.ttl) / 4 }

// probe sends the take to one node, and gives it little time: a node that hangs must not delay a try for long.
func (h *attempt) probe(now time.Duration, node int) {
	h.round = round{op: Take, number: h.round.number + 1, sent: now, deadline: now + h.Timeout(h.ttl)}
	h.probing, h.probed, h.probeBy = true, node, now+h.probeTime()
	h.take(now, node)
}

// widen sends the take to all others, when the first node has granted, does not help, or has published no release.
func (h *attempt) widen(now time.Duration) {
	h.probing = false
	h.round.deadline = now + h.Timeout(h.ttl)
	for i := range h.seats {
		if i != h.probed {
			h.take(now, i)
		}
	}
}

// take sends the take to one node.
func (h *attempt) take(now time.Duration, node int) {
	s := &h.seats[node]
	s.touched, s.pending, s.silent = true, h.round.number, false
	h.lastSet = now
	h.request(node, Take)
}

// decideProbe ends the try if the first node, which has published a release, answers that another claim has the key.
// Otherwise the try continues: a release may have reached the others and not that node. It reports whether the try has
// ended.
func (c *Claim) decideProbe(now time.Duration, h *attempt) (r Result, over bool) {
	s := &h.seats[h.probed]
	switch {
	case s.answered && s.reply.Code == Denied && h.told:
		return c.lose(now, h, false), true
	case s.answered || now >= h.probeBy:
		h.widen(now)
	}
	return Result{}, false
}
