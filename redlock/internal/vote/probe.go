package vote

import "time"

// Those who wait for one lock are told of its release at the same time. If all of them then asked all nodes, they would
// split the votes, and nobody would get in. So who has lost before asks one node first, the same for all who want that key:
// whoever gets there first then meets nobody on his way. If that node has told of a release and now denies the key, somebody
// was faster, and no other is asked. And so it is enough to hear of a release at that node. It is a matter of speed alone.
// Whatever the first node says, or fails to say, a majority decides as always.

// probes says whether a try is to begin with one node: when others who wait may well try at the same time. Who tries when it
// was not told to may know more than that node does.
func (c *Claim) probes(now time.Duration) bool {
	due := c.pacer.told>>c.pacer.awaited&1 != 0 || now >= c.pacer.again
	return c.tries > 1 && due && !c.rules.Without.Has(Jitter) // which is about votes that are split
}

// first is the node that those who want a key ask first, unless it was of no use lately: then the one after it, and so on.
func (c *Claim) first() int {
	var sum uint32 = 2166136261 // FNV-1a
	for i := range len(c.key) {
		sum = (sum ^ uint32(c.key[i])) * 16777619
	}
	node := int(sum % uint32(c.rules.Nodes)) //nolint:gosec // there are few nodes
	for range c.rules.Nodes {
		if c.shunned>>node&1 == 0 {
			break
		}
		node = (node + 1) % c.rules.Nodes
	}
	return node
}

// shun notes which nodes have said something else to a try than who has the key.
func (c *Claim) shun(h *hold) {
	for i := range h.seats {
		switch s := &h.seats[i]; {
		case !s.touched:
		case s.granted || s.answered && s.said.Code == Denied:
			c.shunned &^= 1 << i
		default:
			c.shunned |= 1 << i
		}
	}
}

// forgive is for a node that was only not among the first: a try ends when enough have answered. Or those who want a key
// would all soon begin with different nodes.
func (c *Claim) forgive(now time.Duration, h *hold, node int, a *Answer) {
	if (a.Code == Granted || a.Code == Denied) && now < h.began+h.probeTime() {
		c.shunned &^= 1 << node
	}
}

// probeTime is how long one node is waited for alone.
func (h *hold) probeTime() time.Duration { return h.Timeout(h.ttl) / 4 }

// probe asks one node, and gives it little time: a node that hangs must hold up nobody.
func (h *hold) probe(now time.Duration, node int) {
	h.round = round{op: Take, number: h.round.number + 1, sent: now, deadline: now + h.Timeout(h.ttl)}
	h.probing, h.probed, h.probeBy = true, node, now+h.probeTime()
	h.take(now, node)
}

// widen asks all others too, when the first node has granted, is of no use, or has told of no release.
func (h *hold) widen(now time.Duration) {
	h.probing = false
	h.round.deadline = now + h.Timeout(h.ttl)
	for i := range h.seats {
		if i != h.probed {
			h.take(now, i)
		}
	}
}

// take asks one node for the key.
func (h *hold) take(now time.Duration, node int) {
	s := &h.seats[node]
	s.touched, s.pending, s.silent = true, h.round.number, false
	h.lastSet = now
	h.request(node, Take)
}

// decideProbe ends the try if the first node, which has told of a release, says that somebody else has the key. Otherwise it
// lets it go on: a release may have reached the others and not that node. It says whether it has ended.
func (c *Claim) decideProbe(now time.Duration, h *hold) (r Result, over bool) {
	s := &h.seats[h.probed]
	switch {
	case s.answered && s.said.Code == Denied && h.told:
		return c.lose(now, h, false), true
	case s.answered || now >= h.probeBy:
		h.widen(now)
	}
	return Result{}, false
}
