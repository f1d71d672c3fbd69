package webui

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/knot"
	"github.com/holdfast-go/holdfast/store"
)

// A deadlock is a knot that two searches have found.
type deadlock struct {
	knot  knot.Knot
	names map[string]bool
}

// maxSearches bounds how many waiting claims one search starts from.
const maxSearches = 256

// searchDeadlocks searches for deadlocks among the queues that the board knows. As in the client, a knot counts when
// two searches found it: the queues are read at different moments. It reports whether to search again although nothing
// changed, and whether the deadlocks changed.
func (b *board) searchDeadlocks() (again, changed bool) {
	found := map[store.ID]deadlock{}
	searches := 0
	for owner, names := range b.owners {
		if len(names) < 2 || len(b.contended(owner, "")) == 0 {
			continue
		}
		for _, name := range b.waitsFor(owner) {
			if searches++; searches > maxSearches {
				break
			}
			q := b.queues[name]
			i := slices.IndexFunc(q.Entries, func(e holdfast.Entry) bool { return !e.Held && e.Owner.ID == owner })
			k, err := knot.Find(context.Background(), b.read, name, claimID(name, q.Entries[i].Token))
			if err == nil && k.Found() {
				found[k.Victim] = newDeadlock(k)
			}
		}
	}
	var confirmed []deadlock
	for victim, d := range found {
		if p, ok := b.pending[victim]; ok && p.knot.Equal(d.knot) {
			confirmed = append(confirmed, d)
		} else {
			again = true
		}
	}
	b.pending = found
	slices.SortFunc(confirmed, func(x, y deadlock) int { return slices.Compare(x.knot.Victim[:], y.knot.Victim[:]) })
	changed = !slices.EqualFunc(confirmed, b.knots, func(x, y deadlock) bool {
		return x.knot.Equal(y.knot) && maps.Equal(x.names, y.names)
	})
	if changed {
		b.mark(confirmed)
	}
	return again, changed
}

// mark notes the deadlocks, and which queues are part of one.
func (b *board) mark(all []deadlock) {
	dead := map[string]bool{}
	for _, d := range all {
		maps.Copy(dead, d.names)
	}
	for name, q := range b.queues {
		if q.dead != dead[name] {
			b.version++
			q.dead, q.row, q.version = dead[name], nil, b.version
			b.dirty[name] = true
		}
	}
	b.knots = all
}

// newDeadlock returns a deadlock with the names in its cycle.
func newDeadlock(k knot.Knot) deadlock {
	d := deadlock{k, map[string]bool{}}
	for _, s := range k.Cycle {
		d.names[s.Name] = true
	}
	return d
}

// steps returns the cycle: each owner waits for a name that the next one holds.
func (d *deadlock) steps() []stepJSON {
	var all []stepJSON
	for _, s := range d.knot.Cycle {
		all = append(all, stepJSON{s.Owner, s.Name, millis(s.Waits.Since), s.Blocker.State == store.Held})
	}
	return all
}

// read is a [knot.Reader] of what the board knows. Since the board knows all queues, it adds to each claim all waits of
// its owner, also those that the owner has not published.
func (b *board) read(_ context.Context, name string) (store.Queue, error) {
	q := b.queues[name]
	if q == nil {
		return store.Queue{}, nil
	}
	var read store.Queue
	for i := range q.Entries {
		e := &q.Entries[i]
		entry := store.Entry{}
		entry.ID, entry.Ticket, entry.Owner = claimID(name, e.Token), e.Token.Ticket(), &e.Owner
		entry.Kind, entry.Units, entry.Limit = e.Kind, int32(e.Units), int32(e.Limit)
		entry.State, entry.Since, entry.Left = store.Waiting, e.Since, e.Left
		if e.Held {
			entry.State = store.Held
		}
		for _, other := range b.waitsFor(e.Owner.ID) {
			for _, w := range b.queues[other].Waiters() {
				if w.Owner.ID == e.Owner.ID {
					entry.Waits = append(entry.Waits, store.Wait{Name: other, ID: claimID(other, w.Token)})
				}
			}
		}
		read.Entries = append(read.Entries, entry)
	}
	return read, nil
}

// claimID returns an ID that stands for a claim in a search. The watch does not report the claim's own.
func claimID(name string, token holdfast.Token) (id store.ID) {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, token.Ticket()), name...))
	copy(id[:], sum[:])
	return id
}
