package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/verify"
)

// Where there is no terminal, each event is a line. What others chose does nothing to whoever reads it.
func TestProgressInLines(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, time.Minute)
	p.show(verify.Event{Text: "seed 7"})
	p.show(verify.Event{At: 1234 * time.Millisecond, Text: "pause\x1b[2J"})
	p.end()
	if want := "holdfast: seed 7\nholdfast:     1.2s  pause\\u001b[2J\n"; out.String() != want {
		t.Errorf("it shows %q, want %q", out.String(), want)
	}
}

// On a terminal, one line changes, is never wider than the terminal, and is gone in the end.
func TestProgressOnTerminal(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, total: time.Minute, width: 30, done: make(chan struct{})}
	p.over.Go(p.run)
	p.show(verify.Event{Text: "seed 7"})
	p.show(verify.Event{At: time.Second, Text: strings.Repeat("long ", 20)})
	p.end()
	const cleared = "\r\x1b[K"
	shown := out.String()
	if !regexp.MustCompile(`^holdfast: seed 7\n\r\x1b\[K\ds of 1m0s  long long`).MatchString(shown) ||
		!strings.HasSuffix(shown, cleared) {
		t.Errorf("it shows %q", shown)
	}
	for _, line := range strings.Split(shown, cleared)[1:] {
		if len(line) >= 30 {
			t.Errorf("%q is wider than the terminal", line)
		}
	}
}
