package cli

import (
	"log/slog"
	"slices"
	"testing"
)

// TestJournal has a store log before and after the journal is opened. Each record is one line without the prefix that
// the program writes itself.
func TestJournal(t *testing.T) {
	var lines []string
	j := &journal{write: func(line string) { lines = append(lines, line) }}
	log := slog.New(j)
	log.Warn("holdfast: a node is slow", "node", "h1")
	if lines != nil {
		t.Errorf("%q is written before the journal is opened", lines)
	}
	j.opened()
	log.Info("holdfast: it is back")
	if want := []string{"a node is slow; node: h1", "it is back"}; !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// TestSkipIsSilent has a command skipped. Whatever the store warned of is not written, but with -v it is.
func TestSkipIsSilent(t *testing.T) {
	locked(t, "x")
	for _, flags := range [][]string{{"--skip"}, {"--skip", "-v"}} {
		a := &app{stdin: temp(t), stdout: temp(t), stderr: temp(t), inProcess: true}
		a.journal.write = func(string) {}
		args := append([]string{"run", "--store=" + storeOf(t)}, flags...)
		if code := a.run(t.Context(), append(args, "x", "--", "true")); code != 0 || a.silent != (len(flags) == 1) {
			t.Errorf("%q: code %d, silent %t", flags, code, a.silent)
		}
	}
}
