package contend

import (
	"errors"
	"regexp"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

// maxTexts is how many different errors of a kind are told apart. The rest are counted together.
const (
	maxTexts = 50
	theRest  = "others"
)

// A tally counts what becomes of the attempts of all goroutines.
type tally struct {
	mu sync.Mutex
	Report
}

func (t *tally) acquired() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Acquired++
}

// failed counts an error. Only a fault of the store that may pass, and the loss of a lease, are to be expected.
func (t *tally) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fault, ok := errors.AsType[*store.Fault](err)
	switch {
	case errors.Is(err, holdfast.ErrLost):
		t.Lost++
	case ok && !fault.Final:
		t.Faults = count(t.Faults, fault.Error())
	default:
		t.Wrong = count(t.Wrong, err.Error())
	}
}

// lengths are times in a text, such as how long a node still has no vote: errors that differ in nothing else are one kind.
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

// report is what was counted, for a process of this name. Nothing is counted after it.
func (t *tally) report(process string) *Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Process = process
	return &t.Report
}
