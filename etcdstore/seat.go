package etcdstore

import (
	"strconv"

	"github.com/holdfast-go/holdfast/store"
)

// A claim's key is a seat of its session in a line: the first that the session has free there. Keys are used again on
// purpose. etcd remembers every key that there ever was until its history is compacted, and reading a line goes through
// all of them: with a key of its own for each claim, a lock would become slower with every use.
//
// What tells a claim from the one that had the seat before is the key's create revision. A seat is free again only when
// it is certain that nothing stands there, nor can come to stand there.
type seats struct {
	taken map[store.ID]int
	used  []bool
}

// seat is the key for a claim, the same one as long as the claim has it.
func (s *Store) seat(ses *session, name string, id store.ID) string {
	in := s.seats[name]
	if in == nil {
		in = &seats{taken: map[store.ID]int{}}
		s.seats[name] = in
	}
	n, has := in.taken[id]
	if !has {
		for n < len(in.used) && in.used[n] {
			n++
		}
		if n == len(in.used) {
			in.used = append(in.used, false)
		}
		in.used[n] = true
		in.taken[id] = n
	}
	return s.keys.line(name) + ses.name + "-" + strconv.Itoa(n)
}

// vacate frees the seat of a claim.
func (s *Store) vacate(name string, id store.ID) {
	in := s.seats[name]
	if in == nil {
		return
	}
	if n, has := in.taken[id]; has {
		delete(in.taken, id)
		in.used[n] = false
	}
	if len(in.taken) == 0 {
		delete(s.seats, name)
	}
}
