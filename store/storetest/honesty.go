package storetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var honesty = rule{11, "honest errors", "A failure of the store is a Fault that names it, never a status, " +
	"and a call returns when its context is done.", []scenario{
	{"cut off", 0, cutOff},
	{"cut off meanwhile", 0, cutOffMeanwhile},
	{"healed", 0, healed},
	{"silence, with a deadline", 0, func(t *trial) { silence(t, Link.HoldRequests, true) }},
	{"silence, cancelled", 0, func(t *trial) { silence(t, Link.HoldRequests, false) }},
	{"no response, with a deadline", 0, func(t *trial) { silence(t, Link.HoldReplies, true) }},
	{"silence, without a deadline", 0, silenceWithoutDeadline},
	{"closed", 0, closedStore},
	{"list of queues", aQueue, listFails},
}}

// checkFault requires a Fault that names the store and is not final.
func (t *trial) checkFault(call string, err error) {
	_, fault := errors.AsType[*store.Fault](err)
	switch {
	case err == nil:
		t.errorf("%s returned no error", call)
	case !fault:
		t.errorf("%s: %v, which is not a *store.Fault", call, err)
	case store.Final(err):
		t.errorf("%s: %v, which is final, though the link may heal", call, err)
	case !strings.Contains(err.Error(), t.able.Store):
		t.errorf("%s: %v, which does not name the store, %q", call, err, t.able.Store)
	}
}

func cutOff(t *trial) {
	name := t.name("cut")
	holder := t.open().mutex(name)
	holder.join(store.Held)
	holder.link.Cut()
	for _, call := range t.calls() {
		t.checkFault(call.name, holder.do(call)) // its context must not be exhausted
	}
}

// The link breaks while the calls are under way.
func cutOffMeanwhile(t *trial) {
	p := t.open().mutex(t.name("meanwhile"))
	p.link.HoldRequests()
	for _, call := range t.calls() {
		t.async(func() { t.checkFault(call.name, p.do(call)) })
	}
	t.settle()
	p.link.Cut()
	t.wait()
}

func healed(t *trial) {
	holder, waiter := t.lastingPair()
	holder.link.Cut()
	if status, err := holder.keepWithin(t.ttl / 6); err == nil {
		t.errorf("Keep over a broken link: %v", status.State)
	}
	holder.link.Heal()
	holder.reach()
	holder.keep(store.Held)
	holder.leave()
	waiter.await()
}

// silence makes every call while no message arrives, and ends their contexts after a while.
func silence(t *trial, hold func(Link) (release func()), deadline bool) {
	p := t.open().mutex(t.name("silence"))
	release := hold(p.link)
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	want := context.Canceled
	if deadline {
		ctx, cancel = context.WithTimeout(context.Background(), t.ttl/4)
		want = context.DeadlineExceeded
	}
	defer cancel()
	returned := map[string]<-chan struct{}{}
	for _, call := range t.calls() {
		returned[call.name] = t.async(func() {
			t.wantError(call.name+" while no message arrives", call.do(ctx, p.Store, p.claim), want)
		})
	}
	t.advance(t.ttl / 4)
	if !deadline {
		cancel()
	}
	t.mustReturn(returned, release)
}

// mustReturn requires that the calls have returned by now. Otherwise it unblocks them.
func (t *trial) mustReturn(returned map[string]<-chan struct{}, release func()) {
	t.advance(t.slack + t.moment)
	end := time.Now().Add(t.late)
	for name, done := range returned {
		for !closed(done) && time.Now().Before(end) {
			t.settle()
		}
		if !closed(done) {
			t.errorf("%s has not returned", name)
		}
	}
	release()
	t.wait()
}

// Without a deadline the claim's ttl is the limit: a later response is of no use.
func silenceWithoutDeadline(t *trial) {
	p := t.open().mutex(t.name("nodeadline"))
	release := p.link.HoldRequests()
	defer release()
	returned := map[string]<-chan struct{}{}
	for _, call := range t.calls() {
		if !call.timed {
			continue
		}
		returned[call.name] = t.async(func() {
			t.checkFault(call.name, call.do(context.Background(), p.Store, p.claim))
		})
	}
	t.advance(t.ttl)
	t.mustReturn(returned, release)
}

func closedStore(t *trial) {
	p := t.open().mutex(t.name("closed"))
	p.join(store.Held)
	p.leave()
	for range 2 {
		p.shut()
	}
	for _, call := range t.calls() {
		began := time.Now()
		t.wantError(call.name+" after Close", p.do(call), store.ErrClosed)
		if took := time.Since(began); took > t.ttl {
			t.errorf("%s after Close took %v", call.name, took)
		}
	}
}
