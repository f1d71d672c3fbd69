package redisstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// The pages of a queue are read one after the other, and meanwhile some leave and others are granted. Those who hold
// come first all the same.
func TestPagesOfChangingLine(t *testing.T) {
	page := func(states string) (places []store.Entry) {
		for _, state := range states {
			places = append(places,
				store.Entry{State: map[rune]store.State{'h': store.Held, 'w': store.Waiting}[state]})
		}
		return places
	}
	for _, test := range []struct{ first, second, want string }{
		{"hh", "hw", "hhhw"},
		{"hw", "ww", "hwww"},
		{"hw", "hw", "hwww"}, // the first two have left
		{"", "hw", "hw"},
	} {
		got := ""
		for _, p := range joinPages(page(test.first), page(test.second)) {
			got += p.State.String()[:1]
		}
		if got != test.want {
			t.Errorf("%s and then %s: %s, want %s", test.first, test.second, got, test.want)
		}
	}
}
