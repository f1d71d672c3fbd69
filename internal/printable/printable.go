// Package printable makes text that other clients chose, such as names and labels, harmless for a terminal.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Line returns text in one line, with JSON escapes for characters that cannot be printed.
func Line(text string) string {
	return Escape(strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(text))
}

// Escape returns text with JSON escapes for characters that cannot be printed, except for newlines.
func Escape(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for _, r := range text {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, "\\u%04x\\u%04x", high, low)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}
