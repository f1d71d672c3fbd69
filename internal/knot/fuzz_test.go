package knot_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/knot"
	"github.com/holdfast-go/holdfast/store"
)

// dice chooses by the bytes of a fuzzer, and always the first when there are no more bytes.
type dice struct{ data []byte }

func (d *dice) IntN(n int) int {
	if len(d.data) == 0 {
		return 0
	}
	b := int(d.data[0])
	d.data = d.data[1:]
	return b % n
}

// FuzzFind compares Find with the oracle after any program.
func FuzzFind(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte("\x03\x00\x00\x00\x00\x00 two owners, two locks, and an unexpected program \x01\x02\x03"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		r := rules{phantoms: true}
		switch d.IntN(4) {
		case 1:
			r.several, r.onAll = true, true
		case 2: // with one wait each: of two waits the later lock may be granted first, and then there is no order
			r.ordered = true
		}
		s := newSystem(d, r)
		for steps := 0; len(d.data) > 0 && steps < 500; steps++ {
			s.step()
		}
		s.writeAll()
		if check(t, s) > 0 && s.ordered {
			t.Fatalf("an alarm though all take locks in one order\n%s", s)
		}
	})
}

// FuzzFindInAnyQueues passes queues to Find that no correct store would return. It must end, return the same again, and
// never write a cycle that is none.
func FuzzFindInAnyQueues(f *testing.F) {
	f.Add([]byte("any lines"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		s := &system{src: d}
		for i := range 4 {
			l := store.Queue{Name: string(rune('A' + i))}
			for n := d.IntN(8); n > 0; n-- {
				s.made++
				c := store.Claim{Name: l.Name, ID: store.ID{byte(d.IntN(256)), byte(s.made)}}
				c.Demand = store.Demand{Kind: store.Kind(d.IntN(3)), Units: int32(d.IntN(6)) - 1,
					Limit: int32(d.IntN(4))}
				if o := d.IntN(8); o > 0 {
					c.Owner = &store.Owner{ID: string(rune('s' + o))}
				}
				for w := d.IntN(3); w > 0; w-- {
					c.Waits = append(c.Waits, store.Wait{Name: string(rune('A' + d.IntN(5))),
						ID: store.ID{byte(d.IntN(256)), byte(d.IntN(32))}})
				}
				l.Entries = append(l.Entries, store.Entry{Claim: c, State: store.State(d.IntN(4))})
			}
			s.lines = append(s.lines, l)
		}
		for _, me := range s.waiting() {
			k, err := knot.Find(context.Background(), s.read, me.Name, me.ID)
			again, _ := knot.Find(context.Background(), s.read, me.Name, me.ID)
			if err != nil || !k.Equal(again) || !sameCycle(k, again) {
				t.Fatalf("%v, then %v, %v", k, again, err)
			}
			if k.Found() {
				if err := wellFormed(s.lines, k); err != nil {
					t.Fatalf("%v\n%s", err, s)
				}
			} else if k.Victim != (store.ID{}) {
				t.Fatalf("half a knot: %v", k)
			}
		}
	})
}
