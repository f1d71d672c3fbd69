package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/store"
)

// shown returns s like store.Shown, but never shortened, and in quotes if it is empty.
func shown(s string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if s == "" || strings.ContainsFunc(s, hidden) {
		return strconv.Quote(s)
	}
	return s
}

// mode returns what a claim holds or waits for, as text.
func mode(e holdfast.Entry) string {
	switch {
	case e.Kind == store.Semaphore:
		return fmt.Sprintf("%d of %d", e.Units, e.Limit)
	case e.Token.Shared():
		return "shared"
	}
	return "exclusive"
}

// rounded returns a duration rounded for display.
func rounded(d time.Duration) time.Duration {
	if d > -time.Second && d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// sinceWhen returns since when a claim is held or waiting, and for how long. Both are "?" if that is not known, as for
// a lock of another library.
func sinceWhen(e holdfast.Entry, now time.Time) (since, held string) {
	if e.Since.IsZero() {
		return "?", "?"
	}
	return e.Since.Format(time.DateTime), rounded(now.Sub(e.Since)).String()
}

// What --json writes. It is described in docs/cli.md: fields are added, never changed.
type (
	listJSON struct {
		Store string      `json:"store"`
		Locks []queueJSON `json:"locks"`
	}
	queueJSON struct {
		Name    string      `json:"name"`
		Holders []entryJSON `json:"holders"`
		Waiters []entryJSON `json:"waiters"`
	}
	entryJSON struct {
		Owner  store.Owner    `json:"owner"`
		Token  holdfast.Token `json:"token"`
		Kind   string         `json:"kind"`
		Shared bool           `json:"shared"`
		Units  int            `json:"units,omitempty"` // of semaphores
		Limit  int            `json:"limit,omitempty"` // likewise
		Since  time.Time      `json:"since"`
		For    string         `json:"for"`
		ForMS  int64          `json:"for_ms"`
		Left   string         `json:"left"`
		LeftMS int64          `json:"left_ms"`
	}
)

func newQueueJSON(queue holdfast.Queue, now time.Time) queueJSON {
	return queueJSON{queue.Name, newEntriesJSON(queue.Holders(), now), newEntriesJSON(queue.Waiters(), now)}
}

func newEntriesJSON(entries []holdfast.Entry, now time.Time) []entryJSON {
	all := make([]entryJSON, len(entries))
	for i, e := range entries {
		held := now.Sub(e.Since)
		if e.Since.IsZero() {
			held = 0
		}
		all[i] = entryJSON{
			Owner: e.Owner, Token: e.Token, Kind: e.Kind.String(), Shared: e.Token.Shared(),
			Since: e.Since, For: rounded(held).String(), ForMS: held.Milliseconds(),
			Left: rounded(e.Left).String(), LeftMS: e.Left.Milliseconds(),
		}
		if e.Kind == store.Semaphore {
			all[i].Units, all[i].Limit = e.Units, e.Limit
		}
	}
	return all
}

// writeJSON writes v as JSON in which characters that are not printable are escaped, so that they have no effect on a
// terminal.
func writeJSON(w io.Writer, v any) error {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, printable.Escape(raw.String())) // outside of its strings JSON is ASCII
	return err
}
