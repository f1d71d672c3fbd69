package check

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

func attempt(who string, from, to history.Instant, granted bool) Attempt {
	return Attempt{history.Who{Client: who}, "x", history.Interval{Begin: from * ms, End: to * ms}, granted}
}

func TestStuck(t *testing.T) {
	for _, test := range []struct {
		name     string
		attempts []Attempt
		want     []string // what the findings say
	}{
		{"nothing", nil, nil},
		{"granted in time", []Attempt{attempt("a", 5, 15, true)}, nil},
		{"gave up early", []Attempt{attempt("a", 5, 14, false)}, nil},
		{"never", []Attempt{attempt("a", 5, 16, false)}, []string{"a waited for 11ms and gave up"}},
		{"late", []Attempt{attempt("a", 5, 17, true)}, []string{"a waited for 12ms and got the lock only then"}},
		{"two of three", []Attempt{attempt("c", 9, 99, false), attempt("b", 8, 9, true), attempt("a", 7, 30, true)},
			[]string{"a waited", "c waited"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := Stuck(test.attempts, 10*time.Millisecond)
			mustFind(t, found, Progress, test.want)
		})
	}
}

// mustFind demands one finding of a rule for each text, in this order.
func mustFind(t *testing.T, found []Finding, rule Rule, texts []string) {
	t.Helper()
	if len(found) != len(texts) {
		t.Fatalf("found %v, want %q", found, texts)
	}
	for i, f := range found {
		if f.Rule != rule || f.Resource != "x" || !strings.Contains(f.Text, texts[i]) {
			t.Errorf("found %v, want %q", f, texts[i])
		}
	}
}
