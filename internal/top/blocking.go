package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/knot"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/store"
)

// Bounds of what is read for one detail view.
const (
	mostHolders = 4  // of each queue that are followed
	mostLinks   = 16 // in all
	mostSearch  = 16 // waiters for which a circle is searched
)

// links are what the holders of a queue wait for in turn, and a circle if there is one.
type links struct {
	name   string
	chain  []string
	circle knot.Knot
	sure   bool // two walks have found the same circle
	err    error
}

// lines shows the links.
func (l links) lines() (lines []string) {
	if l.err != nil {
		return []string{"", "what blocks it cannot be read: " + printable.Line(l.err.Error())}
	}
	if len(l.chain) > 0 {
		lines = append(lines, "", "Blocked by")
		lines = append(lines, l.chain...)
	}
	if l.sure {
		lines = append(lines, "", "DEADLOCK: each of these waits for another of them")
		for _, s := range l.circle.Cycle {
			lines = append(lines, fmt.Sprintf("  %s waits for %s, where %s is ahead", owner(s.Owner),
				printable.Line(s.Name), ownerOf(s.Blocker)))
		}
	}
	return lines
}

func ownerOf(e store.Entry) string { return owner(*cmp.Or(e.Owner, &store.Owner{})) }

// follow reads what blocks a queue. before is what it returned the last time.
func follow(ctx context.Context, read knot.Reader, name string, before links) links {
	l := links{name: name}
	q, err := read(ctx, name)
	if err != nil {
		l.err = err
		return l
	}
	l.chain, l.err = chain(ctx, read, q, 1, map[string]bool{name: true}, nil)
	for i, searched := 0, 0; i < len(q.Entries) && searched < mostSearch && l.err == nil; i++ {
		if q.Entries[i].State != store.Waiting {
			continue
		}
		searched++
		if l.circle, l.err = knot.Find(ctx, read, name, q.Entries[i].ID); l.circle.Found() {
			break
		}
	}
	l.sure = l.circle.Found() && before.name == name && l.circle.Equal(before.circle)
	return l
}

// chain appends what the holders of q wait for, and the holders of that, and so on.
func chain(
	ctx context.Context, read knot.Reader, q store.Queue, depth int, seen map[string]bool, lines []string,
) ([]string, error) {
	for i := range min(len(q.Entries), mostHolders) {
		h := &q.Entries[i]
		if h.State != store.Held {
			break
		}
		for _, w := range h.Waits {
			if seen[w.Name] || len(lines) >= mostLinks {
				continue
			}
			seen[w.Name] = true
			next, err := read(ctx, w.Name)
			if err != nil {
				return lines, err
			}
			if !waitsIn(next, w.ID) {
				continue // it has gone on meanwhile
			}
			lines = append(lines, fmt.Sprintf("%s%s waits for %s, held by %s", strings.Repeat("  ", depth), ownerOf(*h),
				printable.Line(w.Name), holdersOf(next)))
			if lines, err = chain(ctx, read, next, depth+1, seen, lines); err != nil {
				return lines, err
			}
		}
	}
	return lines, nil
}

func waitsIn(q store.Queue, id store.ID) bool {
	return slices.ContainsFunc(q.Entries, func(e store.Entry) bool { return e.ID == id && e.State == store.Waiting })
}

func holdersOf(q store.Queue) string {
	var names []string
	for i := range q.Entries {
		if q.Entries[i].State == store.Held {
			names = append(names, ownerOf(q.Entries[i]))
		}
	}
	switch {
	case len(names) == 0:
		return "no claim"
	case len(names) > 1:
		return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
	return names[0]
}
