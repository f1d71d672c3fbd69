// Package agenda has a list of things to be done, the first due on top. Each entry knows where it stands, so that it
// can leave or move without a search.
package agenda

// Off is where an entry stands that is on no agenda.
const Off = -1

// An Entry remembers where it stands.
type Entry interface{ StandAt(i int) }

// An Agenda is a binary heap. The zero value is empty. The times are kept beside the entries, not in them, so that
// a long agenda is put in order without a look at each entry that is passed.
type Agenda[T Entry] []item[T]

type item[T Entry] struct {
	due int64
	who T
}

// First is the entry that is due first, and when. The agenda must not be empty.
func (a Agenda[T]) First() (who T, due int64) { return a[0].who, a[0].due }

// Add puts x on the agenda.
func (a *Agenda[T]) Add(x T, due int64) {
	*a = append(*a, item[T]{due, x})
	a.up(len(*a) - 1)
}

// Remove takes the entry at i off.
func (a *Agenda[T]) Remove(i int) {
	old := *a
	last := len(old) - 1
	old[i].who.StandAt(Off)
	moved := old[last]
	old[last] = item[T]{}
	*a = old[:last]
	if i < last {
		(*a)[i] = moved
		a.sift(i)
	}
}

// Move changes when the entry at i is due.
func (a *Agenda[T]) Move(i int, due int64) {
	(*a)[i].due = due
	a.sift(i)
}

// sift puts the entry at i in its place.
func (a *Agenda[T]) sift(i int) {
	if !a.down(i) {
		a.up(i)
	}
}

// up moves the entry at i towards the top as far as it goes.
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

// down moves the entry at i away from the top as far as it goes, and says whether it moved.
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
	x.who.StandAt(i)
}
