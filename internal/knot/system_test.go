package knot_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// A system is a tiny store in which some owners run random programs.
type system struct {
	rules
	src    chooser
	lines  []store.Queue
	limits []int32 // of each queue; MaxReaders: a lock
	owners []store.Owner
	made   uint32
}

// A chooser makes all random decisions: a generator of numbers, or the bytes of a fuzzer.
type chooser interface{ IntN(n int) int }

// rules says what the programs do.
type rules struct {
	ordered  bool // all owners acquire locks in one order, so that none is ever stuck
	several  bool // owners wait with several claims
	onAll    bool // what an owner waits for is written on its waiting claims too
	prompt   bool // it is written at once, and not some time
	phantoms bool // published waits may stay when they are over
}

func newSystem(src chooser, r rules) *system {
	s := &system{rules: r, src: src}
	for i := range 2 + src.IntN(4) {
		s.lines = append(s.lines, store.Queue{Name: string(rune('A' + i))})
		s.limits = append(s.limits, []int32{store.MaxReaders, 1, 2, 3, 4}[src.IntN(5)])
	}
	for i := range 2 + src.IntN(5) {
		s.owners = append(s.owners, store.Owner{ID: fmt.Sprintf("o%d", i)})
	}
	return s
}

func (s *system) chance(of int) bool { return s.src.IntN(of) == 0 }

// step lets one owner do something.
func (s *system) step() {
	o := &s.owners[s.src.IntN(len(s.owners))]
	held, waiting, last := 0, 0, -1
	for i := range s.lines {
		for j := range s.lines[i].Entries {
			if p := &s.lines[i].Entries[j]; p.Owner == o {
				last = i
				if p.State == store.Held {
					held++
				} else {
					waiting++
				}
			}
		}
	}
	switch {
	case waiting > 0 && s.chance(16):
		s.leave(o, store.Waiting, s.src.IntN(waiting)) // it waited too long
	case waiting > 0 && !(s.several && waiting < 3 && s.chance(3)):
	case held > 0 && s.chance(4):
		s.leave(o, store.Held, s.src.IntN(held))
	default:
		s.join(o, last)
	}
	if s.prompt || s.chance(2) {
		s.write(o)
	}
}

func (s *system) join(o *store.Owner, last int) {
	i := s.src.IntN(len(s.lines))
	if s.ordered {
		if last+1 == len(s.lines) {
			return
		}
		i = last + 1 + s.src.IntN(len(s.lines)-last-1)
	}
	l := &s.lines[i]
	mine := slices.ContainsFunc(l.Entries, func(p store.Entry) bool { return p.Owner == o })
	if mine && !s.chance(8) {
		return
	}
	limit := s.limits[i]
	a := store.Demand{Kind: store.Semaphore, Units: 1, Limit: limit}
	if limit == store.MaxReaders {
		a.Kind = store.Lock
		if !s.chance(3) {
			a.Units = limit
		}
	} else {
		a.Units += int32(s.src.IntN(int(limit)))
	}
	s.made++
	c := store.Claim{Name: l.Name, Demand: a, Owner: o, Ticket: uint64(s.made)}
	c.ID[0] = byte(s.src.IntN(256)) // so that the largest is anyone's
	binary.BigEndian.PutUint32(c.ID[12:], s.made)
	l.Entries = append(l.Entries, store.Entry{Claim: c, State: store.Waiting})
	regrant(l)
}

// leave takes out the nth claim of an owner in a state.
func (s *system) leave(o *store.Owner, state store.State, n int) {
	for i := range s.lines {
		l := &s.lines[i]
		for j := range l.Entries {
			if l.Entries[j].Owner != o || l.Entries[j].State != state {
				continue
			}
			if n--; n < 0 {
				l.Entries = slices.Delete(l.Entries, j, j+1)
				regrant(l)
				return
			}
		}
	}
}

func regrant(l *store.Queue) {
	held := grant.Held(func(yield func(store.Demand) bool) {
		for i := range l.Entries {
			if !yield(l.Entries[i].Demand) {
				return
			}
		}
	})
	for i := range held {
		l.Entries[i].State = store.Held
	}
}

// write puts what an owner waits for on its claims.
func (s *system) write(o *store.Owner) {
	var waits []store.Wait
	for i := range s.lines {
		for j := range s.lines[i].Entries {
			if p := &s.lines[i].Entries[j]; p.Owner == o && p.State == store.Waiting {
				waits = append(waits, store.Wait{Name: p.Name, ID: p.ID})
			}
		}
	}
	for i := range s.lines {
		for j := range s.lines[i].Entries {
			p := &s.lines[i].Entries[j]
			if p.Owner != o || p.State != store.Held && !s.onAll {
				continue
			}
			now := waits
			if s.phantoms && len(p.Waits) > 0 && s.chance(2) {
				now = slices.Concat(p.Waits[len(p.Waits)-1:], waits)
			}
			p.Waits = now
		}
	}
}

// writeAll brings all that is written up to date.
func (s *system) writeAll() {
	for i := range s.owners {
		s.write(&s.owners[i])
	}
}

// read is a knot.Reader. What it gives does not change with the system.
func (s *system) read(_ context.Context, name string) (store.Queue, error) {
	for _, l := range s.lines {
		if l.Name == name {
			l.Entries = slices.Clone(l.Entries)
			return l, nil
		}
	}
	return store.Queue{Name: name}, nil
}

// waiting gives all claims that wait.
func (s *system) waiting() []store.Claim {
	var all []store.Claim
	for _, l := range s.lines {
		for _, p := range l.Entries {
			if p.State == store.Waiting {
				all = append(all, p.Claim)
			}
		}
	}
	return all
}

func (s *system) String() string { return write(s.lines) }

// write returns queues as text.
func write(lines []store.Queue) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%s:", l.Name)
		for _, p := range l.Entries {
			fmt.Fprintf(&b, "  %s %s %d/%d %.2s-%d", ownerOf(p), p.State, p.Units, p.Limit, p.ID, p.ID[15])
			for _, w := range p.Waits {
				fmt.Fprintf(&b, " >%s.%.2s-%d", w.Name, w.ID, w.ID[15])
			}
			b.WriteByte(';')
		}
		b.WriteByte('\n')
	}
	return b.String()
}
