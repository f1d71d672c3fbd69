package vote

import (
	"cmp"
	"strings"
	"time"
)

// A pacer decides when a claim that lost tries again. Those who try at the same moment split the votes, so each pauses
// for a time of its own.
type pacer struct {
	*Rules
	splits  int           // how often of late the votes were split: the more, the longer the pauses
	again   time.Duration // when to try
	told    uint64        // the nodes that told of a release since the last try began
	listens bool          // it hears of releases only since then
	awaited int           // the node whose push is waited for
	barred  bool          // failures alone made the last try come to nothing: a release does not help
}

const (
	defaultRetry = 4 * time.Millisecond
	defaultPoll  = time.Second
	mostSplits   = 6
	probeParts   = 8 // how much closer together those try who begin with one node: there they split nothing
)

// won makes pauses shorter again.
func (p *pacer) won() { p.splits /= 2 }

// lost sets when to try again after a try that came to nothing; first is the node that will be asked first then.
//
// If somebody else holds, that is when he tells of his release, at any node. If nobody does, those who lost have been in each
// other's way. So has one who was let in by the first node and by too few others: a release may be on its way to those.
//
// If nodes fail that it cannot do without, no release brings that forward. Those who wait would drive each other on by what
// they give back, at nodes that have enough to do.
func (p *pacer) lost(now time.Duration, h *hold, held, barred bool, first int) {
	p.awaited, p.barred = first, barred
	if held && !h.seats[first].granted {
		p.again = now + min(p.chance(p.poll()), p.runOut(&h.seats[first]))
	} else {
		h.tell = !held && !p.Without.Has(Jitter) // which is about votes that are split
		p.again = now + p.chance(p.window())
		p.splits = min(p.splits+1, mostSplits)
	}
	if p.told>>first&1 != 0 || p.listens {
		p.hurry(now)
	}
}

// held says whether somebody else has the lock, as far as a try can tell. An earlier try of this claim is nobody else: its
// release is on its way, may be overtaken, and need not be told.
func (c *Claim) held(h *hold) bool {
	who, most := h.heldBy()
	return (h.probing || most >= h.Majority()) && !strings.HasPrefix(who, c.id+".")
}

// heldBy is who has the key at most nodes, and at how many.
func (h *hold) heldBy() (who string, most int) {
	for i := range h.seats {
		if s := &h.seats[i]; s.answered && s.said.Code == Denied {
			n := h.count(func(o *seat) bool { return o.answered && o.said.Code == Denied && o.said.Holder == s.said.Holder })
			if n > most {
				who, most = s.said.Holder, n
			}
		}
	}
	return who, most
}

// runOut is when the key will have run out at the node that is asked first, if nobody keeps it.
func (p *pacer) runOut(first *seat) time.Duration {
	if !first.answered || first.said.Code != Denied || first.said.Left < 0 {
		return 2 * p.poll()
	}
	return first.said.Left + tick + p.chance(p.window())
}

// freed notes a push. Those that come after the first of a node change nothing.
func (p *pacer) freed(now time.Duration, node int) {
	if node == p.awaited && p.told>>node&1 == 0 {
		p.hurry(now)
	}
	p.told |= 1 << node
}

// hurry lets the next try come soon.
func (p *pacer) hurry(now time.Duration) {
	if !p.barred {
		p.again = min(p.again, now+p.spread(p.window()/probeParts))
	}
}

// window is the time over which those who want the lock spread.
func (p *pacer) window() time.Duration { return cmp.Or(p.Retry, defaultRetry) << p.splits }

func (p *pacer) poll() time.Duration { return cmp.Or(p.Poll, defaultPoll) }

// spread gives a time from 0 to d.
func (p *pacer) spread(d time.Duration) time.Duration {
	if p.Without.Has(Jitter) {
		return d
	}
	return p.Chance(d)
}
