package check

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/history"
)

func update(who string, read, wrote uint64, from, to history.Instant) Update {
	return Update{history.Who{Client: who}, "x", history.Interval{Begin: from * ms, End: to * ms}, read, wrote}
}

func TestLostUpdates(t *testing.T) {
	elsewhere := update("b", 9, 8, 2, 3)
	elsewhere.Register = "y"
	for _, test := range []struct {
		name    string
		updates []Update
		want    []string
	}{
		{"nothing", nil, nil},
		{"one after the other", []Update{update("a", 9, 8, 0, 1), update("b", 8, 7, 2, 3)}, nil},
		{"two registers", []Update{update("a", 9, 8, 0, 1), elsewhere}, nil},
		{"read twice", []Update{update("a", 9, 8, 0, 9), update("b", 9, 7, 2, 3)},
			[]string{"both b and a read 9 and wrote 7 and 8: the update of b is lost"}},
		{"by itself", []Update{update("a", 9, 8, 0, 1), update("a", 9, 8, 2, 3)}, []string{"the update of a is lost"}},
		{"three", []Update{update("a", 9, 8, 0, 3), update("b", 9, 7, 0, 4), update("c", 9, 6, 0, 5)},
			[]string{"both a and b", "both a and c"}},
	} {
		t.Run(test.name, func(t *testing.T) { mustFind(t, LostUpdates(test.updates), LostUpdate, test.want) })
	}
}

func TestHerds(t *testing.T) {
	for _, test := range []struct {
		name    string
		wakeups []Wakeup
		want    []string
	}{
		{"nothing", nil, nil},
		{"the next one", []Wakeup{{"x", 1, 1, 1}}, nil},
		{"all readers", []Wakeup{{"x", 1, 7, 7}}, nil},
		{"nobody was told", []Wakeup{{"x", 1, 0, 1}}, nil},
		{"a herd", []Wakeup{{"x", 1, 1, 1}, {"x", 2, 9, 1}}, []string{"a release woke 9 clients, and let 1 in"}},
	} {
		t.Run(test.name, func(t *testing.T) { mustFind(t, Herds(test.wakeups), Herd, test.want) })
	}
}
