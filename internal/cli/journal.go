package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// A journal is where stores log to. It keeps what they say until it is opened, and then writes each as a line of the
// program. If the program fails before, its error is all that is to be said.
type journal struct {
	write func(line string)

	mu   sync.Mutex
	open bool
	kept []string
}

// mostKept is how many lines are kept.
const mostKept = 100

// opened writes what was kept, and from now on each line as it comes.
func (j *journal) opened() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open = true
	for _, line := range j.kept {
		j.write(line)
	}
	j.kept = nil
}

func (j *journal) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (j *journal) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(r.Message, "holdfast: ")) // say writes that
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, "; %s: %v", a.Key, a.Value)
		return true
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.open:
		j.write(b.String())
	case len(j.kept) < mostKept:
		j.kept = append(j.kept, b.String())
	}
	return nil
}

func (j *journal) WithAttrs([]slog.Attr) slog.Handler { return j } // no store does that

func (j *journal) WithGroup(string) slog.Handler { return j } // nor that
