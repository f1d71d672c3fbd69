package vote

import (
	"cmp"
	"strings"
	"time"
)

// A pacer decides when a claim that lost tries again. Claims that try at the same moment split the votes, so each
// pauses for a time of its own.
type pacer struct {
	*Rules
	splits  int           // how often of late the votes were split: the more, the longer the pauses
	again   time.Duration // when to try
	told    uint64        // the nodes that published a release since the last try began
	listens bool          // it is subscribed to releases only since then
	awaited int           // the node whose push it waits for
	barred  bool          // failures alone made the last try fail: a release does not help
}

const (
	defaultRetry = 4 * time.Millisecond
	defaultPoll  = time.Second
	mostSplits   = 6
	probeParts   = 8 // how much closer together claims try that begin with one node: they split no votes there
)

// won makes pauses shorter again.
func (p *pacer) won() { p.splits /= 2 }

// lost sets when to try again after a try that lost; first is the node that the next try begins with.
//
// If another claim holds, that is when its release is published, at any node. If none holds, the claims that lost have
// blocked each other. So has a claim that the first node and too few others granted: a release may be on its way to
// those.
//
// If nodes fail that are needed for a majority, no release makes a try succeed sooner. Waiters would wake each other by
// their own releases, at nodes that are busy already.
func (p *pacer) lost(now time.Duration, h *attempt, held, barred bool, first int) {
	p.awaited, p.barred = first, barred
	if held && !h.seats[first].granted {
		p.again = now + min(p.chance(p.poll()), p.runOut(&h.seats[first]))
	} else {
		h.tell = !held && !p.Without.Has(Jitter) // which is about split votes
		p.again = now + p.chance(p.window())
		p.splits = min(p.splits+1, mostSplits)
	}
	if p.told>>first&1 != 0 || p.listens {
		p.hurry(now)
	}
}

// held reports whether another claim has the lock, as far as a try can tell. An earlier try of this claim does not
// count: its release is on its way, may be overtaken, and need not be published.
func (c *Claim) held(h *attempt) bool {
	who, most := h.heldBy()
	return (h.probing || most >= h.Majority()) && !strings.HasPrefix(who, c.id+".")
}

// heldBy returns the value that has the key at most nodes, and at how many.
func (h *attempt) heldBy() (who string, most int) {
	for i := range h.seats {
		if s := &h.seats[i]; s.answered && s.reply.Code == Denied {
			n := h.count(func(o *nodeView) bool {
				return o.answered && o.reply.Code == Denied && o.reply.Holder == s.reply.Holder
			})
			if n > most {
				who, most = s.reply.Holder, n
			}
		}
	}
	return who, most
}

// runOut returns when the key will have expired at the node that the next try begins with, if it is not kept.
func (p *pacer) runOut(first *nodeView) time.Duration {
	if !first.answered || first.reply.Code != Denied || first.reply.Left < 0 {
		return 2 * p.poll()
	}
	return first.reply.Left + tick + p.chance(p.window())
}

// freed records a push. After the first one of a node, others change nothing.
func (p *pacer) freed(now time.Duration, node int) {
	if node == p.awaited && p.told>>node&1 == 0 {
		p.hurry(now)
	}
	p.told |= 1 << node
}

// hurry makes the next try come soon.
func (p *pacer) hurry(now time.Duration) {
	if !p.barred {
		p.again = min(p.again, now+p.spread(p.window()/probeParts))
	}
}

// window returns the time over which the tries of waiters are spread.
func (p *pacer) window() time.Duration { return cmp.Or(p.Retry, defaultRetry) << p.splits }

func (p *pacer) poll() time.Duration { return cmp.Or(p.Poll, defaultPoll) }

// spread returns a random time from 0 to d.
func (p *pacer) spread(d time.Duration) time.Duration {
	if p.Without.Has(Jitter) {
		return d
	}
	return p.Chance(d)
}
