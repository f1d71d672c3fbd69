package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/lab/verify"
)

// A progress shows the events of verify: as one changing line on a terminal, as plain lines elsewhere.
type progress struct {
	out   io.Writer
	total time.Duration
	width int // of the terminal; 0 if there is none

	mu    sync.Mutex
	last  verify.Event
	since time.Time // when the faults began; zero if they have not
	done  chan struct{}
	over  sync.WaitGroup
}

// progressEvery is how often the line is drawn.
const progressEvery = 200 * time.Millisecond

func newProgress(out io.Writer, total time.Duration) *progress {
	p := &progress{out: out, total: total, width: demo.TerminalWidth(out), done: make(chan struct{})}
	if p.width > 0 {
		p.over.Go(p.run)
	}
	return p
}

// show shows an event. Events before the first fault stay on the screen.
func (p *progress) show(e verify.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.At > 0 && p.since.IsZero() {
		p.since = time.Now().Add(-e.At)
	}
	p.last = e
	switch {
	case p.width == 0 && e.At > 0:
		fmt.Fprintf(p.out, "holdfast: %8s  %s\n", e.At.Round(100*time.Millisecond), printable.Line(e.Text))
	case e.At == 0:
		fmt.Fprintln(p.out, "holdfast:", printable.Line(e.Text))
	default:
		p.draw()
	}
}

// run draws the line periodically.
func (p *progress) run() {
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-ticker.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// draw overwrites the line.
func (p *progress) draw() {
	if p.since.IsZero() {
		return
	}
	line := fmt.Sprintf("%v of %v  %s", time.Since(p.since).Round(time.Second), p.total, printable.Line(p.last.Text))
	if runes := []rune(line); len(runes) >= p.width {
		line = string(runes[:max(0, p.width-1)])
	}
	io.WriteString(p.out, "\r\x1b[K"+line) //nolint:errcheck // likewise
}

// end clears the line.
func (p *progress) end() {
	close(p.done)
	p.over.Wait()
	if p.width > 0 && !p.since.IsZero() {
		io.WriteString(p.out, "\r\x1b[K") //nolint:errcheck // likewise
	}
}
