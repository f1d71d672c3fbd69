package storetest

import (
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var until = rule{5, "until", "Until is the time at which an acknowledged request was sent, plus ttl, less drift; " +
	"it never depends on when the response arrived.", []scenario{
	{"a late response to Join", 0, func(t *trial) { lateResponse(t, Link.HoldReplies, false) }},
	{"a late response to Keep", 0, func(t *trial) { lateResponse(t, Link.HoldReplies, true) }},
	{"a delayed Join", 0, func(t *trial) { lateResponse(t, Link.HoldRequests, false) }},
	{"over before the next is granted", 0, overBeforeTheNext},
	{"Keep moves it", 0, keepMovesUntil},
	{"Keep moves it after a push", 0, keepMovesUntilAfterPush},
	{"two clocks", 0, untilHasTwoClocks},
}}

// lateResponse delays a Join or Keep for a good part of the claim's ttl.
func lateResponse(t *trial, hold func(Link) (release func()), keep bool) {
	p := t.open().mutex(t.name("late"))
	send := p.join
	if keep {
		p.join(store.Held)
		send = p.keep
	}
	t.delayed(hold(p.link), t.ttl/6, func() { send(store.Held) })
	p.checkUntil()
}

// checkUntil compares the last Until with when its request was sent. Between that reading of the clock and the store's
// own, the machine may be stalled for a moment.
func (p *contender) checkUntil() {
	most := p.claim.TTL + p.t.stall
	if p.t.able.SessionTTL > 0 {
		most += time.Since(p.sent) // the session may have been renewed meanwhile, by another request
	}
	if lasts := p.until.Sub(p.sent); lasts > most {
		p.t.errorf("Until is %v after the request was sent, and the ttl is %v", lasts, p.claim.TTL)
	}
	if !p.until.After(time.Now()) {
		p.t.errorf("Until had passed when the response arrived, %v after the request was sent", time.Since(p.sent))
	}
}

// The purpose of Until: the holder stops believing in its claim before the next claim is granted.
func overBeforeTheNext(t *trial) {
	holder, waiter := t.pair()
	t.delayed(holder.link.HoldReplies(), t.ttl/3, func() { holder.keep(store.Held) })
	holder.link.Kill()
	waiter.await()
	if left := time.Until(holder.until); left > 0 {
		t.errorf("the next was granted while the first had %v left by its Until", left)
	}
}

func keepMovesUntil(t *trial) {
	p := t.open().mutex(t.name("moves"))
	p.join(store.Held)
	for range 3 {
		before := p.until
		t.advance(t.ttl / 2)
		p.keep(store.Held)
		p.checkUntil()
		if !p.until.After(before) {
			t.errorf("Until did not move when the claim was kept %v later", t.ttl/2)
		}
	}
}

// A claim that is granted late in its ttl expires soon unless it is kept.
func keepMovesUntilAfterPush(t *trial) {
	holder, waiter := t.pair()
	before := waiter.until
	t.advance(t.ttl / 2)
	holder.leave()
	waiter.await()
	waiter.checkUntil()
	if !waiter.until.After(before) {
		t.errorf("Until did not move when the claim was kept after its grant")
	}
}

// The wall clock continues while a machine is suspended, and the monotonic clock cannot be set back.
func untilHasTwoClocks(t *trial) {
	if !monotonic(time.Now()) {
		t.skipf("time has no monotonic reading here")
	}
	p := t.open().mutex(t.name("clocks"))
	p.join(store.Held)
	p.checkClocks("Join")
	p.keep(store.Held)
	p.checkClocks("Keep")
}

func (p *contender) checkClocks(call string) {
	if !monotonic(p.until) {
		p.t.errorf("Until of %s has no monotonic reading: %v", call, p.until)
	}
}

// monotonic reports whether x has a monotonic reading. Round(0) strips it.
func monotonic(x time.Time) bool { return x != x.Round(0) }
