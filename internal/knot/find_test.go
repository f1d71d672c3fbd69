package knot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/knot"
	"github.com/holdfast-go/holdfast/store"
)

// long returns a system of n owners in a cycle: each holds a lock and waits for the next.
func long(n int) *system {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf("L%d: o%d.w o%d.w", i, i, (i+n-1)%n))
	}
	s := parse(lines...)
	for i := range s.lines {
		for j := range s.lines[i].Entries {
			p := &s.lines[i].Entries[j]
			p.ID = store.ID{byte(i >> 8), byte(i), byte(j)}
			if next := (i + 1) % n; j == 0 {
				p.Waits = []store.Wait{{Name: s.lines[next].Name, ID: store.ID{byte(next >> 8), byte(next), 1}}}
			}
		}
	}
	return s
}

// crowd returns two owners that wait for each other, with n others that wait between them.
func crowd(n int) *system {
	s := parse("X: a.w b.w", "Y: b.w a.w")
	x := s.lines[0].Entries
	between := make([]store.Entry, n)
	for i := range between {
		p := x[1]
		p.Owner, p.Waits = &store.Owner{}, nil
		p.ID = store.ID{1, byte(i >> 8), byte(i), 1}
		between[i] = p
	}
	s.lines[0].Entries = slices.Insert(x, 1, between...)
	return s
}

// pool returns n holders of a semaphore that wait for an owner which waits for the semaphore.
func pool(n int) *system {
	s := parse("S: a.1/2 b.1/2 z.1/2", "Y: z.w a.w b.w")
	for i := range s.lines {
		l := &s.lines[i]
		all := make([]store.Entry, 0, n+1)
		for _, p := range l.Entries {
			if p.Kind == store.Semaphore {
				p.Limit = int32(n)
			}
			if p.Owner.ID == "z" {
				all = append(all, p)
				continue
			}
			for j := range n / 2 {
				q := p
				q.Owner = &store.Owner{ID: fmt.Sprint(p.Owner.ID, j)}
				q.ID[1], q.ID[2] = byte(j>>8), byte(j)
				if len(p.Waits) > 0 {
					w := p.Waits[0]
					w.ID[1], w.ID[2] = q.ID[1], q.ID[2]
					q.Waits = []store.Wait{w}
				}
				all = append(all, q)
			}
		}
		l.Entries = all
	}
	return s
}

func TestReadsEachQueueOnce(t *testing.T) {
	s := long(5)
	reads := make(map[string]int)
	k, err := knot.Find(t.Context(), func(ctx context.Context, name string) (store.Queue, error) {
		reads[name]++
		return s.read(ctx, name)
	}, "L3", store.ID{0, 3, 1})
	if err != nil || len(k.Cycle) != 5 || len(reads) != 5 {
		t.Fatalf("%s, %v, %v", show(k), err, reads)
	}
	for name, n := range reads {
		if n != 1 {
			t.Errorf("%s was read %d times", name, n)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		about string
		s     *system
		name  string
		me    store.ID
		found bool
	}{
		{"as many lines as may be", long(256), "L0", store.ID{0, 0, 1}, true},
		{"too many lines", long(257), "L0", store.ID{0, 0, 1}, false},
		{"as many places as may be", crowd(9_996), "Y", store.ID{4}, true},
		{"too many places", crowd(9_997), "Y", store.ID{4}, false},
		{"a large pool", pool(4_000), "S", store.ID{3}, true},
		{"not waiting any more", long(2), "L0", store.ID{0, 0, 0}, false},
		{"gone", long(2), "L0", store.ID{9}, false},
		{"no such line", long(2), "L9", store.ID{0, 0, 1}, false},
	} {
		k, err := knot.Find(t.Context(), c.s.read, c.name, c.me)
		if err != nil || k.Found() != c.found {
			t.Errorf("%s: %v, %v", c.about, k.Found(), err)
		}
	}
}

func TestReadError(t *testing.T) {
	down := errors.New("down")
	s := long(3)
	n := 0
	k, err := knot.Find(t.Context(), func(ctx context.Context, name string) (store.Queue, error) {
		if n++; n == 3 {
			return store.Queue{}, down
		}
		return s.read(ctx, name)
	}, "L0", store.ID{0, 0, 1})
	if !errors.Is(err, down) || k.Found() {
		t.Errorf("%v, %v", k, err)
	}
}

// TestEqual checks that two walks are unequal if an owner that holds something continued between them, and not if one
// that only waits did.
func TestEqual(t *testing.T) {
	walk := func(change func(x, y *store.Queue)) knot.Knot {
		s := parse("X: a.w w.w b.w", "Y: b.w a.w")
		change(&s.lines[0], &s.lines[1])
		k, err := knot.Find(t.Context(), s.read, "Y", store.ID{5})
		if err != nil || !k.Found() {
			t.Fatalf("%v, %v", k, err)
		}
		return k
	}
	first := walk(func(_, _ *store.Queue) {})
	for about, c := range map[string]struct {
		change func(x, y *store.Queue)
		equal  bool
	}{
		"nothing":               {func(_, _ *store.Queue) {}, true},
		"left is less":          {func(x, _ *store.Queue) { x.Entries[0].Left = 1 }, true},
		"one who waits left":    {func(x, _ *store.Queue) { x.Entries = append(x.Entries[:1], x.Entries[2]) }, true},
		"handed over":           {func(x, _ *store.Queue) { x.Entries[0].Turn++ }, false},
		"held with a new claim": {func(_, y *store.Queue) { y.Entries[0].ID = store.ID{44} }, false},
		"waits with a new claim": {func(x, y *store.Queue) {
			x.Entries[2].ID = store.ID{3, 3}
			y.Entries[0].Waits = []store.Wait{{Name: "X", ID: store.ID{3, 3}}}
		}, false},
	} {
		if second := walk(c.change); first.Equal(second) != c.equal || second.Equal(first) != c.equal {
			t.Errorf("%s: equal is %v", about, !c.equal)
		}
	}
	if first.Equal(knot.Knot{}) || !(knot.Knot{}).Equal(knot.Knot{}) {
		t.Error("the zero knot is equal to the zero knot only")
	}
}

func BenchmarkFind(b *testing.B) {
	for _, c := range []struct {
		about string
		s     *system
		name  string
		me    store.ID
	}{
		{"two", long(2), "L0", store.ID{0, 0, 1}},
		{"five", long(5), "L0", store.ID{0, 0, 1}},
		{"256", long(256), "L0", store.ID{0, 0, 1}},
		{"none", parse("X: a.w b.w", "Y: b.w"), "X", store.ID{2}},
		{"crowd", crowd(9_000), "Y", store.ID{4}},
		{"pool", pool(4_500), "S", store.ID{3}},
	} {
		lines := make(map[string]store.Queue)
		for _, l := range c.s.lines {
			lines[l.Name] = l
		}
		read := func(_ context.Context, name string) (store.Queue, error) { return lines[name], nil }
		b.Run(c.about, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := knot.Find(b.Context(), read, c.name, c.me); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
