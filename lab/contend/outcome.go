package contend

import (
	"errors"
	"regexp"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/store"
)

// An Outcome is what the processes of a crowd recorded and counted.
type Outcome struct {
	Holds   []history.Hold // of all processes, also of those that were killed, in order of their beginning
	Reports []Report       // of those that were not killed
}

// Findings returns the violations that the holds show: see packages check and history.
func (o *Outcome) Findings() []check.Finding {
	return append(check.Overlap(o.Holds), check.Tokens(o.Holds)...)
}

// Outside returns the holds that ended before an interval or began after it.
func (o *Outcome) Outside(v history.Interval) []history.Hold {
	touches := func(h history.Hold) bool { return h.End >= v.Begin && h.Begin <= v.End }
	return slices.DeleteFunc(slices.Clone(o.Holds), touches)
}

// Total returns the sum of all reports.
func (o *Outcome) Total() Report {
	total := Report{Process: "all", Faults: map[string]int{}, Wrong: map[string]int{}}
	for _, r := range o.Reports {
		total.Acquired += r.Acquired
		total.Lost += r.Lost
		for text, n := range r.Faults {
			total.Faults[text] += n
		}
		for text, n := range r.Wrong {
			total.Wrong[text] += n
		}
	}
	return total
}

// maxTexts is how many different errors of a kind are told apart. The rest are counted together.
const (
	maxTexts = 50
	theRest  = "others"
)

// A Tally counts the results of the attempts of all goroutines of a process.
type Tally struct {
	mu     sync.Mutex
	report Report
}

// Acquired counts a lock that was granted.
func (t *Tally) Acquired() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Acquired++
}

// Failed counts an error. Only retryable faults of the store and the loss of a lease are expected.
func (t *Tally) Failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fault, ok := errors.AsType[*store.Fault](err)
	switch {
	case errors.Is(err, holdfast.ErrLost):
		t.report.Lost++
	case ok && !fault.Final:
		t.report.Faults = count(t.report.Faults, fault.Error())
	default:
		t.report.Wrong = count(t.report.Wrong, err.Error())
	}
}

// lengths are times in a text, such as how long a node still has no vote: errors that differ in nothing else are one
// kind.
var lengths = regexp.MustCompile(`\b([0-9]+(\.[0-9]+)?(h|m|s|ms|µs|ns))+\b`)

func count(texts map[string]int, text string) map[string]int {
	text = lengths.ReplaceAllString(text, "…")
	if texts == nil {
		texts = map[string]int{}
	}
	if texts[text] == 0 && len(texts) >= maxTexts {
		text = theRest
	}
	texts[text]++
	return texts
}

// Report returns what was counted, for a process of this name. Nothing is counted afterwards.
func (t *Tally) Report(process string) *Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Process = process
	return &t.report
}
