package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// A journal is the slog.Handler that stores log to. It keeps records until it is opened, and then writes each as a line
// of the program. If the program fails before, only its error is printed.
type journal struct {
	write func(line string)

	mu   sync.Mutex
	open bool
	kept []string
}

// maxKept is the number of lines that are kept.
const maxKept = 100

// opened writes what was kept, and has each later line written at once.
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
	b.WriteString(strings.TrimPrefix(r.Message, "holdfast: ")) // logf writes it
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, "; %s: %v", a.Key, a.Value)
		return true
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.open:
		j.write(b.String())
	case len(j.kept) < maxKept:
		j.kept = append(j.kept, b.String())
	}
	return nil
}

func (j *journal) WithAttrs([]slog.Attr) slog.Handler { return j } // no store uses it

func (j *journal) WithGroup(string) slog.Handler { return j } // likewise
