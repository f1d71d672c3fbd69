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

// shown is a word as store.Shown has it, but in its whole length, and in quotes if it is empty.
func shown(s string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	if s == "" || strings.ContainsFunc(s, hidden) {
		return strconv.Quote(s)
	}
	return s
}

// what is what a place has or wants, for people.
func what(p holdfast.Entry) string {
	switch {
	case p.Kind == store.Semaphore:
		return fmt.Sprintf("%d of %d", p.Units, p.Limit)
	case p.Token.Shared():
		return "shared"
	}
	return "exclusive"
}

// rounded is a duration that people can read.
func rounded(d time.Duration) time.Duration {
	if d > -time.Second && d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// sinceWhen says since when a place is held or waited in, and for how long that is. A lock of another library's does not
// say.
func sinceWhen(p holdfast.Entry, now time.Time) (since, held string) {
	if p.Since.IsZero() {
		return "?", "?"
	}
	return p.Since.Format(time.DateTime), rounded(now.Sub(p.Since)).String()
}

// What --json writes. It is described in docs/cli.md: fields are added, never changed.
type (
	listJSON struct {
		Store string     `json:"store"`
		Locks []lineJSON `json:"locks"`
	}
	lineJSON struct {
		Name    string      `json:"name"`
		Holders []placeJSON `json:"holders"`
		Waiters []placeJSON `json:"waiters"`
	}
	placeJSON struct {
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

func newListJSON(storeName string, lines []holdfast.Queue, now time.Time) listJSON {
	list := listJSON{storeName, make([]lineJSON, len(lines))}
	for i, line := range lines {
		list.Locks[i] = newLineJSON(line, now)
	}
	return list
}

func newLineJSON(line holdfast.Queue, now time.Time) lineJSON {
	return lineJSON{line.Name, placesJSON(line.Holders(), now), placesJSON(line.Waiters(), now)}
}

func placesJSON(places []holdfast.Entry, now time.Time) []placeJSON {
	all := make([]placeJSON, len(places))
	for i, p := range places {
		held := now.Sub(p.Since)
		if p.Since.IsZero() {
			held = 0
		}
		all[i] = placeJSON{
			Owner: p.Owner, Token: p.Token, Kind: p.Kind.String(), Shared: p.Token.Shared(),
			Since: p.Since, For: rounded(held).String(), ForMS: held.Milliseconds(),
			Left: rounded(p.Left).String(), LeftMS: p.Left.Milliseconds(),
		}
		if p.Kind == store.Semaphore {
			all[i].Units, all[i].Limit = p.Units, p.Limit
		}
	}
	return all
}

// writeJSON writes v as JSON that does nothing to a terminal: characters that cannot be printed are escaped.
func writeJSON(w io.Writer, v any) error {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, printable.Escape(raw.String())) // only in strings of JSON there are others than ASCII
	return err
}
