package top

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/printable"
	"github.com/holdfast-go/holdfast/store"
)

// isOfQueue reports whether an error of Watch concerns one queue alone.
func isOfQueue(err error) bool {
	e, ok := errors.AsType[*holdfast.Error](err)
	return ok && e.Name != ""
}

// short writes a duration in at most five characters, as in 850ms, 12s, 3m20s, 2h05m and 4d.
func short(d time.Duration) string {
	switch d = d.Round(time.Millisecond); {
	case d < 0:
		return "?"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 10*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

// mode describes what holders of a queue have: lock, shared, or k of n.
func mode(q holdfast.Queue) string {
	first := q.Entries[0]
	switch {
	case first.Kind == store.Semaphore:
		used := 0
		for _, e := range q.Holders() {
			used += e.Units
		}
		return fmt.Sprintf("%d of %d", used, first.Limit)
	case first.Token.Shared():
		return fmt.Sprintf("shared %d", len(q.Holders()))
	}
	return "lock"
}

// want describes what an entry has or wants.
func want(e holdfast.Entry) string {
	switch {
	case e.Kind == store.Semaphore:
		return fmt.Sprintf("%d of %d", e.Units, e.Limit)
	case e.Token.Shared():
		return "shared"
	}
	return "lock"
}

// holder describes the first holder of a queue, and how many more there are.
func holder(q holdfast.Queue) string {
	holders := q.Holders()
	if len(holders) == 0 {
		return "-"
	}
	text := owner(holders[0].Owner)
	if more := len(holders) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// owner describes an owner in one printable line.
func owner(o store.Owner) string { return printable.Line(o.String()) }

// fit cuts text to a width in columns, with an ellipsis, and pads it. A character that is two columns wide is never cut
// in half.
func fit(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if w := uniseg.StringWidth(text); w <= width {
		return text + strings.Repeat(" ", width-w)
	}
	var b strings.Builder
	used, state := 0, -1
	for text != "" {
		var cluster string
		var w int
		cluster, text, w, state = uniseg.FirstGraphemeClusterInString(text, state)
		if used+w > width-1 {
			break
		}
		b.WriteString(cluster)
		used += w
	}
	return b.String() + "…" + strings.Repeat(" ", width-1-used)
}

// fitRight is fit for numbers.
func fitRight(text string, width int) string {
	if w := uniseg.StringWidth(text); w < width {
		return strings.Repeat(" ", width-w) + text
	}
	return fit(text, width)
}
