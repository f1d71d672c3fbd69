package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Cases about pushes that arrive. That they may be lost is rule 7.

// wakeTries is how often a case about pushes is tried: on a busy machine a push may be late, and a subscription may
// break and be renewed. A bug of the store shows in each try.
const wakeTries = 5

// The waiter is notified well before its next regular Keep, which is after a third of its ttl.
func releaseWakes(t *trial) {
	a, b := t.open(), t.open()
	quickest := t.patience()
	for try := range wakeTries {
		name := t.name(fmt.Sprint("wake", try))
		holder, waiter := a.mutex(name), b.mutex(name).lasts()
		queued(holder, waiter)
		woken := t.async(waiter.await)
		t.advance(t.ttl / 12)
		released := time.Now()
		holder.leave()
		<-woken
		quickest = min(quickest, time.Since(released))
		if quickest <= waiter.claim.TTL/6 {
			return
		}
		waiter.leave()
	}
	t.errorf("the next claim was notified %v after a release", quickest)
}

// A queue exists to avoid a herd of waiters that all wake in vain.
func releaseWakesNoOthers(t *trial) {
	a, b := t.open(), t.open()
	pushes := 0
	for try := range wakeTries {
		if pushes = wokenInVain(a, b, t.name(fmt.Sprint("herd", try))); pushes == 0 {
			return
		}
	}
	t.errorf("a release woke claims with %d pushes that do not fit yet", pushes)
}

// wokenInVain counts the pushes to readers that wait behind a writer, when the holder before it leaves.
func wokenInVain(a, b *client, name string) (pushes int) {
	t := a.t
	holder, writer := a.mutex(name), b.mutex(name)
	readers := []*contender{a.reader(name), b.reader(name)}
	queued(holder, slices.Concat([]*contender{writer}, readers)...)
	holder.leave()
	t.settle()
	for _, r := range readers {
		pushes += r.pushCount()
	}
	writer.keep(store.Held)
	writer.leave()
	t.settle()
	for _, r := range readers {
		r.keep(store.Held)
	}
	return pushes
}
