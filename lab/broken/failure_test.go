package broken

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/check"
)

// unlucky is a rung with this lock, which takes it once.
func unlucky(broken func(context.Context, *part) (lock, error)) *Rung {
	return &Rung{
		Name: "unlucky", broken: broken, holdfast: holdfastFile,
		schedule: func(s *stage) {
			s.onFile()
			s.enter("A").locks()
		},
	}
}

// A faulty lock fails at once.
type faulty struct{}

var errFaulty = errors.New("it is out of order")

func (faulty) tryLock(context.Context) (bool, error) { return false, errFaulty }
func (faulty) unlock(context.Context) error          { return errFaulty }

// TestFailures: a rung whose lock fails is an error that says which, with which seed, and what the matter is. It is not
// taken for a lock that was not caught.
func TestFailures(t *testing.T) {
	for name, test := range map[string]struct {
		broken func(context.Context, *part) (lock, error)
		want   string
	}{
		"it cannot be made": {func(context.Context, *part) (lock, error) { return nil, errFaulty }, errFaulty.Error()},
		"it fails":          {func(context.Context, *part) (lock, error) { return faulty{}, nil }, errFaulty.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			r := unlucky(test.broken)
			ladder = append(ladder, r)
			defer func() { ladder = ladder[:len(ladder)-1] }()
			_, err := (&Lab{}).Play(t.Context(), r, 7)
			if err == nil || !strings.Contains(err.Error(), "unlucky, seed 7, with the broken lock: ") ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// TestMissing: a server that is not there is told of, with how to get it, before anything is played.
func TestMissing(t *testing.T) {
	_, err := (&Lab{}).Play(t.Context(), &Rung{Name: "far", Needs: []string{"no-such-server"}}, 1)
	missing, ok := errors.AsType[*MissingError](err)
	if !ok || missing.Program != "no-such-server" || !strings.Contains(err.Error(), "To get it: put it on the PATH") {
		t.Errorf("%v", err)
	}
}

// TestVerdicts: an outcome is as good as what its checks say. One that has judged nothing has not passed.
func TestVerdicts(t *testing.T) {
	finding := []check.Finding{{Rule: check.Exclusion}}
	r := &Rung{Rule: check.Exclusion}
	for name, test := range map[string]struct {
		broken, holdfast []Check
		caught, passed   bool
	}{
		"as it should be": {[]Check{{Judged: 2, Findings: finding}}, []Check{{Judged: 2}}, true, true},
		"not caught":      {[]Check{{Judged: 2}}, []Check{{Judged: 2}}, false, true},
		"by another rule": {[]Check{{Judged: 2, Findings: []check.Finding{{Rule: check.Limit}}}}, []Check{{Judged: 1}},
			false, true},
		"Holdfast broken": {[]Check{{Judged: 2, Findings: finding}}, []Check{{Judged: 2, Findings: finding}}, true,
			false},
		"nothing happened": {[]Check{{Judged: 2, Findings: finding}}, []Check{{Judged: 2}, {Judged: 0}}, true, false},
		"nothing checked":  {nil, nil, false, false},
	} {
		o := &Outcome{Rung: r, Broken: &Performance{Checks: test.broken}, Holdfast: &Performance{Checks: test.holdfast}}
		if o.Caught() != test.caught || o.Passed() != test.passed {
			t.Errorf("%s: caught %t and passed %t", name, o.Caught(), o.Passed())
		}
	}
}
