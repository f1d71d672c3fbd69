package storetest

import (
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Cases about pushes that arrive. That they may be lost is rule 7.

// The waiter is told well before it would have asked by itself, which is after a third of its ttl.
func releaseWakes(t *trial) {
	name := t.name("wake")
	holder, waiter := t.open().mutex(name), t.open().mutex(name)
	if t.able.SessionTTL == 0 {
		waiter.claim.TTL = min(4*t.ttl, t.able.MaxTTL)
	}
	holder.join(store.Held)
	waiter.join(store.Waiting)
	woken := t.async(waiter.await)
	t.advance(t.ttl / 12)
	released := time.Now()
	holder.leave()
	<-woken
	if took := time.Since(released); took > waiter.claim.TTL/6 {
		t.errorf("the next was woken %v after a release", took)
	}
}

// A herd of waiters that all wake and find nothing is what a line is there to avoid.
func releaseWakesNobodyElse(t *trial) {
	name := t.name("herd")
	a, b := t.open(), t.open()
	holder, writer := a.mutex(name), b.mutex(name)
	readers := []*contender{a.reader(name), b.reader(name)}
	holder.join(store.Held)
	writer.join(store.Waiting)
	for _, r := range readers {
		r.join(store.Waiting)
	}
	holder.leave()
	t.settle()
	for _, r := range readers {
		if n := r.pushCount(); n > 0 {
			t.errorf("a release woke a claim with %d pushes that does not fit yet", n)
		}
	}
	writer.keep(store.Held)
	writer.leave()
	t.settle()
	for _, r := range readers {
		r.keep(store.Held)
	}
}
