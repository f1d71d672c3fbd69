package knot_test

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/knot"
	"github.com/holdfast-go/holdfast/store"
)

// parse makes a system of queues from text such as "X: a.w b.r", a lock's queue with a writer and a reader, or "S:
// a.1/3 b.2/3", a semaphore's. Claims are numbered as they stand, or as "#9" says. With "?" one waits though it could
// hold. All that waits is written on all claims.
func parse(text ...string) *system {
	s := &system{rules: rules{onAll: true}}
	owners := make(map[string]*store.Owner)
	id := byte(0)
	for _, t := range text {
		name, places, _ := strings.Cut(t, ":")
		l := store.Queue{Name: name}
		var late []int
		for f := range strings.FieldsSeq(places) {
			f, isLate := strings.CutSuffix(f, "?")
			f, number, numbered := strings.Cut(f, "#")
			owner, units, _ := strings.Cut(f, ".")
			id++
			c := store.Claim{Name: name, ID: store.ID{id}, Demand: ask(units)}
			if numbered {
				c.ID[0] = byte(atoi(number))
			}
			if isLate {
				late = append(late, len(l.Entries))
			}
			if owners[owner] == nil {
				owners[owner] = &store.Owner{ID: owner}
			}
			c.Owner = owners[owner]
			l.Entries = append(l.Entries, store.Entry{Claim: c, State: store.Waiting})
		}
		regrant(&l)
		for _, i := range late {
			l.Entries[i].State = store.Waiting
		}
		s.lines = append(s.lines, l)
	}
	for o := range maps.Values(owners) {
		s.write(o)
	}
	return s
}

func ask(text string) store.Demand {
	switch units, limit, _ := strings.Cut(text, "/"); units {
	case "w":
		return store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
	case "r":
		return store.Demand{Kind: store.Lock, Units: 1, Limit: store.MaxReaders}
	default:
		return store.Demand{Kind: store.Semaphore, Units: int32(atoi(units)), Limit: int32(atoi(limit))}
	}
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// show writes a cycle as "a Y b X": a waits in Y for b, which waits in X for a.
func show(k knot.Knot) string {
	var all []string
	for _, s := range k.Cycle {
		all = append(all, s.OwnerID, s.Name)
	}
	return strings.Join(all, " ")
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		about string
		lines []string
		want  map[string]string // the cycle that each member finds; all others find nothing
	}{
		{"two who cross", []string{"X: a.w b.w", "Y: b.w a.w"}, same("a Y b X", "a", "b")},
		{"the largest ID gives up, wherever it stands", []string{"X: a.w b.w#9", "Y: b.w a.w"},
			same("b X a Y", "a", "b")},
		{
			"three over a mutex, a read-write lock and a semaphore",
			[]string{"X: a.w c.w", "Y: b.r a.w", "S: c.2/2 b.1/2"},
			same("b S c X a Y", "a", "b", "c"),
		},
		{"all of one order", []string{"X: a.w b.w", "Y: c.w a.w", "Z: d.w c.w"}, nil},
		{
			"a reader behind a waiting writer, who holds nothing and so is no victim",
			[]string{"X: a.r w.w#99 b.r", "Y: b.w a.w"},
			same("a Y b X", "a", "b", "w"),
		},
		{"readers do not block each other", []string{"X: a.r b.r", "Y: b.r a.r"}, nil},
		{
			"one who reads again behind a waiting writer",
			[]string{"X: a.r w.w#99 a.r"}, same("a X w X", "a", "w"),
		},
		{
			"one who waits between the two, and would give up for nothing",
			[]string{"X: a.w w.w#99 b.w", "Y: b.w a.w"}, same("a Y b X", "a", "b", "w"),
		},
		{
			"one who waits between the two, and holds what only one who can go on wants",
			[]string{"S: a.2/3 z.1/3 w.2/3#99 b.2/3", "Y: b.w a.w", "Z: w.r z.w", "F: f.w z.w"},
			same("a Y b S", "a", "b", "w"),
		},
		{
			"one who waits between the two, and blocks only itself",
			[]string{"X: a.w w.w#99 b.w", "Y: b.w a.w", "V: w.r w.w"}, same("a Y b X", "a", "b", "w"),
		},
		{
			"one who waits between the two, and only shares",
			[]string{"X: a.w w.w#99 b.w", "Y: b.w a.w", "V: w.r b.r w.w"}, same("a Y b X", "a", "b", "w"),
		},
		{"a semaphore with a holder who is free", []string{"S: a.1/2 f.1/2 b.1/2", "Y: b.w a.w"}, nil},
		{"a free holder whose units are not enough", []string{"S: a.2/3 f.1/3 b.2/3", "Y: b.w a.w"},
			same("a Y b S", "a", "b")},
		{
			"a semaphore all of whose holders wait", []string{"S: a.1/2 c.1/2 b.1/2", "Y: b.w a.w c.w"},
			same("c Y b S", "a", "b", "c"),
		},
		{
			"a holder in another knot, which may come loose",
			[]string{"S: a.1/2 f.1/2 b.1/2", "Y: b.w a.w", "P: f.w g.w", "Q: g.w f.w"}, same("f Q g P", "f", "g"),
		},
		{"two knots", []string{"X: a.w b.w", "Y: b.w a.w", "P: c.w d.w", "Q: d.w c.w"},
			merge(same("a Y b X", "a", "b"), same("c Q d P", "c", "d"))},
		{
			"a knot that stays when the one ahead of it is untied",
			[]string{"S: a.2/3 c.1/3 b.2/3", "Y: b.w a.w", "P: c.w d.w", "Q: d.w c.w"},
			merge(same("a Y b S", "a", "b"), same("c Q d P", "c", "d")),
		},
		{
			"one of two waits is for a knot that may come loose",
			[]string{"X: a.w b.w", "Y: b.w a.w", "P: c.w d.w", "Q: d.w c.w", "Z: c.w b.w"}, same("c Q d P", "c", "d"),
		},
		{"one who waits behind a knot", []string{"X: a.w b.w z.w", "Y: b.w a.w", "Z: z.w"}, same("a Y b X", "a", "b")},
		{"one of two waits will be granted", []string{"X: a.w b.w", "Y: b.w a.w", "Z: f.w a.w"}, nil},
		{"neither of two waits will", []string{"X: a.w b.w", "Y: b.w a.w", "Z: b.w a.w"}, same("a Z b X", "a", "b")},
		{"the store is about to grant", []string{"X: a.w b.w", "Y: b.w a.w", "Z: a.w?"}, nil},
		{"a claim behind its own", []string{"X: a.w a.w", "Y: a.r a.w"}, nil},
		{"others behind one who blocks itself", []string{"X: a.r a.w b.r", "Y: b.w c.w"}, nil},
		{
			"a shortest cycle of several", []string{"X: a.w b.w", "Y: b.w c.w a.w", "Z: c.w b.w"},
			same("b Z c Y", "a", "b", "c"),
		},
		{"a larger limit is within it", []string{"S: a.5/5 b.1/6", "Y: b.w a.w"}, nil},
		{"a smaller limit waits", []string{"S: a.2/5 b.1/2", "Y: b.w a.w"}, same("a Y b S", "a", "b")},
	} {
		t.Run(c.about, func(t *testing.T) {
			s := parse(c.lines...)
			for _, me := range s.waiting() {
				k, err := knot.Find(context.Background(), s.read, me.Name, me.ID)
				if err != nil {
					t.Fatal(err)
				}
				if got := show(k); got != c.want[me.Owner.ID] {
					t.Errorf("%s finds %q, want %q", me.Owner.ID, got, c.want[me.Owner.ID])
				}
				if k.Found() {
					if err := wellFormed(s.lines, k); err != nil {
						t.Error(err)
					}
				}
			}
			check(t, s)
		})
	}
}

func same(cycle string, members ...string) map[string]string {
	all := make(map[string]string)
	for _, m := range members {
		all[m] = cycle
	}
	return all
}

func merge(a, b map[string]string) map[string]string {
	maps.Copy(a, b)
	return a
}

// TestPhantoms: a wait that is not so is none, whatever was written.
func TestPhantoms(t *testing.T) {
	for _, c := range []struct {
		about string
		lines []string
		wrote store.Wait
	}{
		{"gone", []string{"X: a.w b.w", "Y: b.w"}, store.Wait{Name: "Y", ID: store.ID{77}}},
		{"held", []string{"X: a.w b.w", "Y: b.r a.r"}, store.Wait{Name: "Y", ID: store.ID{4}}},
		{"another's", []string{"X: a.w b.w", "Y: b.w c.w"}, store.Wait{Name: "Y", ID: store.ID{4}}},
		{"in no line", []string{"X: a.w b.w", "Y: b.w"}, store.Wait{Name: "Z", ID: store.ID{1}}},
		{"its own place", []string{"X: a.w b.w", "Y: b.w"}, store.Wait{Name: "X", ID: store.ID{1}}},
	} {
		s := parse(c.lines...)
		s.lines[0].Entries[0].Waits = []store.Wait{c.wrote}
		k, err := knot.Find(context.Background(), s.read, "X", store.ID{2})
		if err != nil || k.Found() {
			t.Errorf("%s: %s, %v", c.about, show(k), err)
		}
	}
}

// TestOwnersWithoutID: the first claim of an owner may stand for it, and later ones name that claim.
func TestOwnersWithoutID(t *testing.T) {
	s := parse("X: a.w b.w", "Y: b.w a.w")
	x, y := s.lines[0].Entries, s.lines[1].Entries
	x[0].Owner, y[0].Owner = &store.Owner{Label: "first"}, &store.Owner{}
	x[1].Owner, y[1].Owner = &store.Owner{ID: y[0].ID.String()}, &store.Owner{ID: x[0].ID.String(), Label: "later"}
	for _, me := range s.waiting() {
		k, err := knot.Find(context.Background(), s.read, me.Name, me.ID)
		if want := x[0].ID.String() + " Y " + y[0].ID.String() + " X"; err != nil || show(k) != want {
			t.Errorf("%q, %v, want %q", show(k), err, want)
		} else if k.Cycle[0].Owner.Label != "later" {
			t.Errorf("%v", k.Cycle[0].Owner)
		}
	}
}

// TestSilentOwnerIsNoVictim: an owner that does not publish its waits does not search for knots either, so it would
// never learn that it has to give up.
func TestSilentOwnerIsNoVictim(t *testing.T) {
	s := parse("X: a.w b.w", "Y: b.w a.w#99 z.w", "Z: z.w")
	s.lines[0].Entries[0].Waits = nil
	if k, err := knot.Find(context.Background(), s.read, "Y", store.ID{99}); err != nil || show(k) != "b X a Y" {
		t.Errorf("%s, %v", show(k), err)
	}
}
