package main

import (
	"strings"
	"testing"
)

func TestAuditFindsWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name  string
		draws []draw
		want  string // empty: nothing
	}{
		{"nobody drew", nil, ""},
		{"two drew", []draw{{1, 0, 256}, {2, 1, 512}}, ""},
		{"a user drew twice", []draw{{1, 0, 256}, {1, 1, 512}}, "users who drew twice: 1, shares drawn twice: 0"},
		{"a share was drawn twice", []draw{{1, 0, 256}, {2, 0, 512}}, "users who drew twice: 0, shares drawn twice: 1"},
		{"a share was skipped", []draw{{1, 0, 256}, {2, 2, 512}}, "3.00 paid and 0.00 left of 10.00"},
		{"an older holder drew last", []draw{{1, 0, 512}, {2, 1, 256}}, "a token did not rise"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &packet{shares: []int{100, 700, 200}}
			for _, d := range test.draws {
				p.record(d)
			}
			found := p.audit()
			got := ""
			if err := found.problem(); err != nil {
				got = err.Error()
			}
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
