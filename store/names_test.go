package store_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/store"
)

func TestQuote(t *testing.T) {
	for name, want := range map[string]string{
		"":                                  `""`,
		"x":                                 `"x"`,
		"a\n\x1b[31m\u202e\u009bb\"":        `"a\n\x1b[31m\u202e\u009bb\""`,
		"\xff\x00":                          `"\xff\x00"`,
		strings.Repeat("x", 64):             `"` + strings.Repeat("x", 64) + `"`,
		strings.Repeat("x", 65):             `"` + strings.Repeat("x", 64) + `"…`,
		strings.Repeat("x", 63) + "ä" + "x": `"` + strings.Repeat("x", 63) + `"…`,
		strings.Repeat("x", 61) + "𝄞𝄞":      `"` + strings.Repeat("x", 61) + `"…`,
		strings.Repeat("\x80", 70):          `"` + strings.Repeat(`\x80`, 60) + `"…`,
	} {
		if got := store.Quote(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// TestOwnerInOneLine checks that label, host and ID, which other clients choose, add no line and only a few words.
func TestOwnerInOneLine(t *testing.T) {
	for _, evil := range []string{"a\nb", "\x1b[2J", "\u202e", "\xff", strings.Repeat("x", 500)} {
		text := store.Owner{ID: evil, Label: evil, Host: evil, PID: 7}.String()
		hidden := func(r rune) bool { return !unicode.IsPrint(r) }
		if len(text) > 400 || !utf8.ValidString(text) || strings.ContainsFunc(text, hidden) {
			t.Errorf("%q", text)
		}
	}
	plain := store.Owner{ID: "job 7", Label: "nightly", Host: "web-1", PID: 4711}
	if got := plain.String(); got != "job 7, nightly on web-1 (pid 4711)" {
		t.Error(got)
	}
}
