package testkit

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// A Log keeps what is logged. Stores write to it at any time.
type Log struct {
	mu    sync.Mutex
	lines []string
}

// Logger returns a logger that writes to the log.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write implements io.Writer. A logger calls it once for each line.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

// Take returns what was logged since the last call.
func (l *Log) Take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.lines, "")
	l.lines = nil
	return text
}

// Count returns how many lines have all of these words.
func (l *Log) Count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		lacks := func(word string) bool { return !strings.Contains(line, word) }
		if !slices.ContainsFunc(words, lacks) {
			n++
		}
	}
	return n
}
