package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/knot"
	"github.com/holdfast-go/holdfast/store"
)

const (
	mostQueues   = 5000             // that are read
	readers      = 8                // that read at the same time
	queuesWithin = 10 * time.Second // for reading all of them
	knotsWithin  = 5 * time.Second
	mostShown    = 3 // names in one finding
)

// queues reads the queues of a store, and reports those that cannot be read, those that do not move, and deadlocks.
func queues(ctx context.Context, s store.Store) []store.Finding {
	w := ward{store: s, queues: map[string]store.Queue{}, unreadable: map[string]error{}}
	within, cancel := context.WithTimeout(ctx, queuesWithin)
	defer cancel()
	err := w.read(within)
	counted := w.count(err)
	if len(w.queues)+len(w.unreadable) == 0 {
		return []store.Finding{counted}
	}
	return []store.Finding{counted, w.formats(), w.leftovers(), w.deadlocks(ctx)}
}

// A ward is the queues of a store, as they were read.
type ward struct {
	store      store.Store
	queues     map[string]store.Queue
	unreadable map[string]error
	more       bool // there are names that were not read

	mu sync.Mutex
}

// read reads the queues of all names, up to mostQueues.
func (w *ward) read(ctx context.Context) (err error) {
	names := make(chan string)
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			for name := range names {
				w.readOne(ctx, name)
			}
		})
	}
	n := 0
	for name, failed := range w.store.Names(ctx, "") {
		if failed != nil {
			err = failed
			break
		}
		if n++; n > mostQueues {
			w.more = true
			break
		}
		names <- name
	}
	close(names)
	all.Wait()
	return err
}

func (w *ward) readOne(ctx context.Context, name string) {
	q, err := w.store.Queue(ctx, name)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		w.more = true
	case err != nil:
		w.unreadable[name] = err
	case len(q.Entries) > 0:
		w.queues[name] = q
	}
}

// count reports how much is in the store.
func (w *ward) count(err error) store.Finding {
	held, waiting := 0, 0
	for _, q := range w.queues {
		for i := range q.Entries {
			if q.Entries[i].State == store.Held {
				held++
			} else {
				waiting++
			}
		}
	}
	f := store.Finding{
		Check: "queues",
		Found: fmt.Sprintf("%d names in use, with %d claims that hold and %d that wait", len(w.queues), held, waiting),
	}
	switch {
	case errors.Is(err, store.ErrUnsupported):
		f.Found = "not read: " + text(err)
	case err != nil:
		f.Level, f.Found = store.Warn, "the names in use cannot be listed: "+text(err)
		f.Why = "holdfast ls, top and exporter need that; locks do not"
		f.Fix = fixFor(scheme(w.store.Abilities().Store), err)
	case w.more:
		f.Found += fmt.Sprintf(" among those that were read within %v; there are more", queuesWithin)
	}
	return f
}

// formats reports queues that cannot be read.
func (w *ward) formats() store.Finding {
	f := store.Finding{Check: "format", Found: "every queue can be read"}
	if len(w.unreadable) == 0 {
		return f
	}
	var shown []string
	newer := false
	for name, err := range w.unreadable {
		newer = newer || errors.Is(err, store.ErrFormat)
		if len(shown) < mostShown {
			shown = append(shown, store.Shown(name)+": "+text(err))
		}
	}
	f.Level, f.Found = store.Warn, fmt.Sprintf("%d queues cannot be read: %s", len(w.unreadable),
		strings.Join(shown, "; "))
	f.Why = "locks of these names cannot be acquired by this version of holdfast"
	f.Fix = "remove what was written there by hand, if no client uses it"
	if newer {
		f.Fix = "use a version of holdfast that is at least as new as the one that wrote it"
	}
	return f
}

// leftovers reports queues whose claims wait although none holds, and claims that have outlived their ttl.
func (w *ward) leftovers() store.Finding {
	var stalled, expired []string
	for name, q := range w.queues {
		if q.Entries[0].State != store.Held {
			stalled = append(stalled, name)
		}
		if slices.ContainsFunc(q.Entries, func(e store.Entry) bool { return e.Left < -time.Minute }) {
			expired = append(expired, name)
		}
	}
	f := store.Finding{Check: "leftovers", Found: "every queue has a holder, and no claim has outlived its ttl"}
	if !w.store.Abilities().Queue {
		return f
	}
	switch {
	case len(expired) > 0:
		f.Level = store.Warn
		f.Found = fmt.Sprintf("claims of %d names have outlived their ttl by a minute: %s", len(expired), some(expired))
		f.Why = "a claim that does not expire blocks all that wait behind it"
		f.Fix = "holdfast show NAME; if its holder is dead: holdfast break NAME"
	case len(stalled) > 0:
		f.Level = store.Warn
		f.Found = fmt.Sprintf("claims wait and none holds, in %d queues: %s", len(stalled), some(stalled))
		f.Why = "normal for a moment, and while a startup delay lasts; if it stays, the claim in front blocks the " +
			"others"
		f.Fix = "run doctor again; if it stays: holdfast show NAME, and holdfast break --token TOKEN NAME for a dead " +
			"client"
	}
	return f
}

// some writes a few names.
func some(names []string) string {
	var shown []string
	for _, name := range names[:min(len(names), mostShown)] {
		shown = append(shown, store.Shown(name))
	}
	if more := len(names) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(shown, ", ")
}

// deadlocks reports owners that wait for each other.
func (w *ward) deadlocks(ctx context.Context) store.Finding {
	ctx, cancel := context.WithTimeout(ctx, knotsWithin)
	defer cancel()
	f := store.Finding{Check: "deadlocks", Found: "no owners wait for each other"}
	if !w.store.Abilities().Queue {
		f.Found = "not searched for: the store keeps no queue"
		return f
	}
	found := map[store.ID]knot.Knot{}
	for _, waits := range w.link() {
		for _, wait := range waits {
			if k, err := knot.Find(ctx, w.linked, wait.Name, wait.ID); err == nil && k.Found() {
				found[k.Victim] = k
			}
		}
	}
	if len(found) == 0 {
		return f
	}
	var shown []string
	for _, k := range found {
		if len(shown) == mostShown {
			break
		}
		var steps []string
		for _, step := range k.Cycle {
			steps = append(steps, fmt.Sprintf("%s waits for %s", step.Owner, store.Quote(step.Name)))
		}
		shown = append(shown, strings.Join(steps, ", "))
	}
	f.Level, f.Found = store.Warn, fmt.Sprintf("%d deadlocks: %s", len(found), strings.Join(shown, "; "))
	f.Why = "one of the clients gives up within seconds, unless it has turned the search off: then they wait until a " +
		"context ends"
	f.Fix = "take the locks in one order, or with LockAll; to end it now: holdfast break NAME"
	return f
}

// link notes on all claims of an owner what that owner waits for, and returns the waits of those that also hold.
// Clients write that themselves only if they search for deadlocks.
func (w *ward) link() map[string][]store.Wait {
	waits, holds := map[string][]store.Wait{}, map[string]bool{}
	w.each(func(e *store.Entry) {
		if e.State == store.Held {
			holds[ownerOf(e)] = true
		} else {
			waits[ownerOf(e)] = append(waits[ownerOf(e)], store.Wait{Name: e.Name, ID: e.ID})
		}
	})
	w.each(func(e *store.Entry) { e.Waits = waits[ownerOf(e)] })
	maps.DeleteFunc(waits, func(owner string, _ []store.Wait) bool { return !holds[owner] })
	return waits
}

// linked is a knot.Reader of what was read.
func (w *ward) linked(_ context.Context, name string) (store.Queue, error) {
	return w.queues[name], nil
}

func (w *ward) each(do func(*store.Entry)) {
	for name, q := range w.queues {
		for i := range q.Entries {
			q.Entries[i].Name = name
			do(&q.Entries[i])
		}
	}
}

// ownerOf returns what tells the owner of a claim from others: the first claim of an owner stands for it.
func ownerOf(e *store.Entry) string {
	if e.Owner != nil && e.Owner.ID != "" {
		return e.Owner.ID
	}
	return e.ID.String()
}
