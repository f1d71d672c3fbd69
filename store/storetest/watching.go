package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

var watching = rule{0, "watching", "A Watcher reports every change of a queue, and with an empty name that some " +
	"may have been missed; a Lister yields every queue as Queue returns it.", []scenario{
	{"changes", aQueue, changesAreReported},
	{"prefix", aQueue, prefixIsWatched},
	{"cut off", aQueue, lostChangesAreReported},
	{"the end", aQueue, watchEnds},
	{"closed", aQueue, watchEndsWithStore},
	{"long queues", aQueue, longQueuesAreListed},
}}

// reportWithin is how long a change may take to be reported: less than the claims of these cases live.
const reportWithin = 30 * time.Second

// A watchCall is a call of Watch under way.
type watchCall struct {
	t      *trial
	cancel context.CancelFunc
	done   <-chan struct{}
	err    error // of Watch, when done is closed

	mu    sync.Mutex
	names []string // that were reported
	over  bool     // Watch has returned
	late  int      // how many were reported after that
}

// watch starts a Watch of a client. It returns when the subscription has begun.
func (c *client) watch(prefix string) *watchCall {
	w, ok := c.Store.(store.Watcher)
	if !ok {
		c.t.skipf("the store reports no changes")
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &watchCall{t: c.t, cancel: cancel}
	l.done = c.t.async(func() {
		defer cancel()
		err := w.Watch(ctx, prefix, l.changed)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err, l.over = err, true
	})
	l.await("the beginning", func(name string) bool { return name == "" })
	if errors.Is(l.result(), store.ErrUnsupported) {
		c.t.skipf("the store reports no changes as it was opened")
	}
	return l
}

func (l *watchCall) changed(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names = append(l.names, name); l.over {
		l.late++
	}
}

// result returns the error of Watch, if it has returned.
func (l *watchCall) result() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// await waits until a matching name is reported, and discards what was reported so far.
func (l *watchCall) await(what string, will func(name string) bool) {
	for deadline := time.Now().Add(reportWithin); ; l.t.advance(l.t.moment) {
		l.mu.Lock()
		found, over := slices.ContainsFunc(l.names, will), l.over
		if found {
			l.names = nil
		}
		l.mu.Unlock()
		if found || over {
			return
		}
		if time.Now().After(deadline) {
			l.t.fatalf("%s was not reported", what)
		}
	}
}

// reports waits until the change of a queue is reported, by its name or with an empty one.
func (l *watchCall) reports(name, what string) {
	l.await(what, func(reported string) bool { return reported == name || reported == "" })
}

// end ends the Watch, and checks its result.
func (l *watchCall) end() {
	l.cancel()
	l.returns(context.Canceled)
}

// returns requires that Watch returns this error and reports nothing more.
func (l *watchCall) returns(want error) {
	select {
	case <-l.done:
	case <-time.After(l.t.patience()):
		l.t.fatalf("Watch has not returned")
	}
	if err := l.result(); !errors.Is(err, want) {
		l.t.errorf("Watch returned %v, want %v", err, want)
	}
}

// Each step of a claim's life is reported to another client.
func changesAreReported(t *trial) {
	l := t.open().watch(t.mark)
	holder, waiter := t.rivals()
	name := holder.claim.Name
	holder.lasts().join(store.Held)
	l.reports(name, "a claim that was held at once")
	waiter.lasts().join(store.Waiting)
	l.reports(name, "a claim that waits")
	holder.leave()
	l.reports(name, "a release")
	waiter.await()
	if err := waiter.breakTicket(name, waiter.claim.Ticket); err != nil {
		t.errorf("Break: %v", err)
	}
	l.reports(name, "a claim that was broken")
	l.end()
}

// Names that begin with another prefix, and those of other tenants, are not reported.
func prefixIsWatched(t *trial) {
	c := t.open()
	tenant := t.openAt(t.mark)
	l := c.watch(t.name("in/"))
	var reported []string
	for i := range 3 {
		for _, other := range []*contender{c.mutex(t.name(fmt.Sprint("out/", i))), tenant.mutex(t.name("in/tenant"))} {
			other.lasts().join(store.Held)
			other.leave()
		}
		own := c.mutex(t.name(fmt.Sprint("in/", i)))
		own.lasts().join(store.Held)
		l.await("a change", func(name string) bool {
			reported = append(reported, name)
			return name == own.claim.Name || name == ""
		})
	}
	l.end()
	for _, name := range reported {
		if name != "" && (!strings.HasPrefix(name, t.name("in/")) || name == t.name("in/tenant")) {
			t.errorf("%q was reported, which is not watched", name)
			return
		}
	}
}

// Changes while the connection is broken are reported after the reconnect.
func lostChangesAreReported(t *trial) {
	c := t.open()
	l := c.watch(t.mark)
	c.link.Cut()
	ctx, cancel := context.WithTimeout(context.Background(), t.ttl)
	_, _ = c.Queue(ctx, t.name("lost")) // fails
	cancel()
	p := t.open().mutex(t.name("lost"))
	p.claim.TTL = t.longTTL()
	p.join(store.Held)
	c.link.Heal()
	c.reach()
	l.reports(p.claim.Name, "a change that happened while the connection was broken")
	l.end()
}

// A Watch ends with its context, and reports nothing afterwards. Another one continues.
func watchEnds(t *trial) {
	c := t.open()
	ends, goesOn := c.watch(t.mark), c.watch(t.mark)
	ends.end()
	p := c.mutex(t.name("end"))
	p.lasts().join(store.Held)
	goesOn.reports(p.claim.Name, "a change that happened after another Watch had ended")
	goesOn.end()
	t.settle()
	for _, l := range []*watchCall{ends, goesOn} {
		l.mu.Lock()
		if l.late > 0 {
			t.errorf("%d changes were reported after Watch had returned", l.late)
		}
		l.mu.Unlock()
	}
}

// A Watch ends with its store.
func watchEndsWithStore(t *trial) {
	c := t.open()
	l := c.watch(t.mark)
	c.shut()
	l.returns(store.ErrClosed)
	w, _ := c.Store.(store.Watcher)
	ctx, cancel := t.context()
	defer cancel()
	t.wantError("Watch of a closed store", w.Watch(ctx, "", func(string) {}), store.ErrClosed)
}

// lister returns the client's store as a Lister.
func (c *client) lister() store.Lister {
	l, ok := c.Store.(store.Lister)
	if !ok {
		c.t.skipf("the store reads its queues one by one")
	}
	return l
}

// queues returns what Queues yields, by name.
func (c *client) queues(prefix string) (queues map[string]store.Queue, errs map[string]error) {
	ctx, cancel := c.t.context()
	defer cancel()
	queues, errs = map[string]store.Queue{}, map[string]error{}
	for q, err := range c.lister().Queues(ctx, prefix) {
		if _, twice := queues[q.Name]; twice {
			c.t.errorf("Queues yields %q twice", q.Name)
		}
		queues[q.Name] = q
		if err != nil {
			errs[q.Name] = err
		}
	}
	c.t.noError(errs[""], "Queues(%q)", prefix)
	return queues, errs
}

// sameQueue requires that a queue was listed as Queue returns it.
func (c *client) sameQueue(listed store.Queue) {
	want := c.entries(listed.Name)
	same := slices.EqualFunc(listed.Entries, want, func(a, b store.Entry) bool {
		return a.ID == b.ID && a.Name == b.Name && a.Ticket == b.Ticket && a.State == b.State && a.Demand == b.Demand &&
			a.Owner.Label == b.Owner.Label && a.Left > 0 && a.Since.Sub(b.Since).Abs() < time.Minute
	})
	if !same {
		c.t.errorf("the queue %q was listed with %d entries, and Queue returns %d, or they differ: %.300s", listed.Name,
			len(listed.Entries), len(want), fmt.Sprintf("%+v and %+v", listed.Entries, want))
	}
}

// Every queue is listed, as it is.
func queuesAreListed(t *trial) {
	c, claims := holdOddNames(t)
	queues, _ := c.queues("")
	for _, p := range claims {
		c.sameQueue(queues[p.claim.Name])
	}
	if len(queues) != len(claims) {
		t.errorf("%d queues are listed, want %d", len(queues), len(claims))
	}
	for _, p := range claims {
		p.leave()
	}
	if queues, _ := c.queues(""); len(queues) > 0 {
		t.errorf("%d queues are listed when none is in use", len(queues))
	}
}

// A queue is listed whole, and beside others.
func longQueuesAreListed(t *trial) {
	c := t.openAt(t.mark)
	for _, name := range []string{"a", "long", "z"} {
		c.mutex(name).lasts().join(store.Held)
	}
	for range 30 {
		c.mutex("long").lasts().join(store.Waiting)
	}
	queues, _ := c.queues("")
	for _, name := range []string{"a", "long", "z"} {
		c.sameQueue(queues[name])
	}
	if n := len(queues["long"].Entries); n != 31 {
		t.errorf("a queue of 31 claims is listed with %d", n)
	}
}

// A filter is a prefix, never a pattern. Queues may be left early.
func listIsFiltered(t *trial) {
	c, claims := holdOddNames(t)
	for _, prefix := range []string{"a", "A", "a/", "*", "[a]", "%", "_", "{", `\`, "'", "x", "🔒", "nobody"} {
		want := len(oddNamesWith(prefix))
		queues, _ := c.queues(prefix)
		for name := range queues {
			if !strings.HasPrefix(name, prefix) {
				t.errorf("Queues(%q) yields %q", prefix, name)
			}
		}
		if len(queues) != want {
			t.errorf("Queues(%q) yields %d queues, want %d", prefix, len(queues), want)
		}
	}
	ctx, cancel := t.context()
	defer cancel()
	for range c.lister().Queues(ctx, "") {
		break
	}
	for _, p := range claims {
		p.leave()
	}
}

// A queue in a newer format is listed with an error, and costs the others nothing.
func newerQueueIsListed(t *trial) {
	c := t.open()
	c.lister() // it has one
	names := []string{t.name("newer/a"), t.name("newer/b"), t.name("newer/c")}
	for _, name := range names {
		c.mutex(name).lasts().join(store.Held)
	}
	t.must("PlantNewer", t.harness.PlantNewer(names[1]))
	queues, errs := c.queues(t.name("newer/"))
	if err := errs[names[1]]; !errors.Is(err, store.ErrFormat) {
		t.errorf("a queue in a newer format is listed with %v, want %v", err, store.ErrFormat)
	}
	for _, name := range []string{names[0], names[2]} {
		c.sameQueue(queues[name])
	}
}

// A failure ends Queues, with an error and no name.
func listFails(t *trial) {
	c := t.open()
	l := c.lister()
	fails := func() (err error) {
		ctx, cancel := t.context()
		defer cancel()
		for q, failed := range l.Queues(ctx, t.mark) {
			if err = failed; err != nil && q.Name != "" {
				t.errorf("a failure is yielded with the name %q", q.Name)
			}
		}
		return err
	}
	c.link.Cut()
	t.checkFault("Queues", fails())
	c.shut()
	t.wantError("Queues of a closed store", fails(), store.ErrClosed)
}
