// Package agenda has a priority queue by time. Each entry knows its index, so that it can be removed or moved without a
// search.
package agenda

// Off is the index of an entry that is on no agenda.
const Off = -1

// An Entry is told its index whenever it changes. The index is Off after the entry was removed.
type Entry interface{ SetIndex(i int) }

// An Agenda is a binary heap. The zero value is empty. The times are kept beside the entries, not in them, so that a
// long agenda is put in order without reading the memory of each entry.
type Agenda[T Entry] []item[T]

type item[T Entry] struct {
	due   int64
	entry T
}

// First returns the entry that is due first, and when. The agenda must not be empty.
func (a Agenda[T]) First() (entry T, due int64) { return a[0].entry, a[0].due }

// Add adds x to the agenda.
func (a *Agenda[T]) Add(x T, due int64) {
	*a = append(*a, item[T]{due, x})
	a.up(len(*a) - 1)
}

// Remove removes the entry at index i.
func (a *Agenda[T]) Remove(i int) {
	old := *a
	last := len(old) - 1
	old[i].entry.SetIndex(Off)
	moved := old[last]
	old[last] = item[T]{}
	*a = old[:last]
	if i < last {
		(*a)[i] = moved
		a.sift(i)
	}
}

// Move changes when the entry at index i is due.
func (a *Agenda[T]) Move(i int, due int64) {
	(*a)[i].due = due
	a.sift(i)
}

// sift moves the entry at index i to where its time belongs.
func (a *Agenda[T]) sift(i int) {
	if !a.down(i) {
		a.up(i)
	}
}

// up moves the entry at index i towards the top as far as possible.
func (a *Agenda[T]) up(i int) {
	x := (*a)[i]
	for i > 0 {
		parent := (i - 1) / 2
		if (*a)[parent].due <= x.due {
			break
		}
		a.put(i, (*a)[parent])
		i = parent
	}
	a.put(i, x)
}

// down moves the entry at index i away from the top as far as possible, and reports whether it moved.
func (a *Agenda[T]) down(i int) bool {
	x, from := (*a)[i], i
	for {
		child := 2*i + 1
		if child >= len(*a) {
			break
		}
		if right := child + 1; right < len(*a) && (*a)[right].due < (*a)[child].due {
			child = right
		}
		if x.due <= (*a)[child].due {
			break
		}
		a.put(i, (*a)[child])
		i = child
	}
	a.put(i, x)
	return i > from
}

func (a *Agenda[T]) put(i int, x item[T]) {
	(*a)[i] = x
	x.entry.SetIndex(i)
}
