package printable

import "testing"

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"plain":       "plain",
		"zwei Wörter": "zwei Wörter",
		"two\nlines":  "two lines",
		"\x1b[2J":     `\u001b[2J`,
		"a\u202eb":    `a\u202eb`,
		"\U000e0041":  `\udb40\udc41`,
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestEscape(t *testing.T) {
	if got, want := Escape("two\nlines\r\x9b"), "two\nlines\\u000d\ufffd"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
