package check

import (
	"strings"
	"testing"
)

func TestHerds(t *testing.T) {
	for _, test := range []struct {
		name    string
		wakeups []Wakeup
		want    string
	}{
		{"nothing", nil, ""},
		{"the next one", []Wakeup{{"x", 1, 1, 1}}, ""},
		{"all readers", []Wakeup{{"x", 1, 7, 7}}, ""},
		{"and the one after it", []Wakeup{{"x", 1, 2, 1}}, ""},
		{"one too many", []Wakeup{{"x", 1, 1, 1}, {"x", 2, 3, 1}}, "a release woke 3 clients, and granted 1"},
		{"nobody was told", []Wakeup{{"x", 1, 0, 1}}, ""},
		{"a herd", []Wakeup{{"x", 1, 1, 1}, {"x", 2, 9, 1}}, "a release woke 9 clients, and granted 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := Herds(test.wakeups)
			if test.want == "" && len(found) == 0 {
				return
			}
			if len(found) != 1 || found[0].Rule != Herd || found[0].Begin != 2 ||
				!strings.Contains(found[0].Text, test.want) {
				t.Errorf("found %v, want %q", found, test.want)
			}
		})
	}
}
