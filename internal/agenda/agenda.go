// Package agenda has a list of things to be done, the first due on top. Each entry knows where it stands, so that it
// can leave or move without a search.
package agenda

// Off is where an entry stands that is on no agenda.
const Off = -1

// An Entry is due before or after others, and remembers where it stands.
type Entry[T any] interface {
	Before(other T) bool
	StandAt(i int)
}

// An Agenda is a binary heap. The zero value is empty.
type Agenda[T Entry[T]] []T

// Add puts x on the agenda.
func (a *Agenda[T]) Add(x T) {
	*a = append(*a, x)
	a.up(len(*a) - 1)
}

// Remove takes the entry at i off.
func (a *Agenda[T]) Remove(i int) {
	var none T
	old := *a
	last := len(old) - 1
	old[i].StandAt(Off)
	moved := old[last]
	old[last] = none
	*a = old[:last]
	if i < last {
		(*a)[i] = moved
		a.Fix(i)
	}
}

// Fix puts the entry at i in its place after its time has changed.
func (a *Agenda[T]) Fix(i int) {
	if !a.down(i) {
		a.up(i)
	}
}

// up moves the entry at i towards the top as far as it goes.
func (a *Agenda[T]) up(i int) {
	x := (*a)[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !x.Before((*a)[parent]) {
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
		if right := child + 1; right < len(*a) && (*a)[right].Before((*a)[child]) {
			child = right
		}
		if !(*a)[child].Before(x) {
			break
		}
		a.put(i, (*a)[child])
		i = child
	}
	a.put(i, x)
	return i > from
}

func (a *Agenda[T]) put(i int, x T) {
	(*a)[i] = x
	x.StandAt(i)
}
