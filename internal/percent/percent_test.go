package percent_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/percent"
)

const special percent.Set = `{}|*?[]\`

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":            "",
		"a b/c":       "a b/c",
		"日本 語":        "日本 語",
		"100%":        "100%25",
		"{x}":         "%7Bx%7D",
		"a\n\x7f\x00": "a%0A%7F%00",
	} {
		if got := special.Escape(text); got != want {
			t.Errorf("%q is escaped to %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"%", "%4", "%zz", "a%2"} {
		if got, ok := percent.Unescape(text); ok {
			t.Errorf("%q counts as escaped, from %q", text, got)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a", "b")
	f.Add("a%", "a%25")
	f.Add("{a}|*", "\x00\xff[")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := special.Escape(a), special.Escape(b)
		if (a == b) != (x == y) {
			t.Errorf("%q and %q are escaped to %q and %q", a, b, x, y)
		}
		if strings.HasPrefix(a, b) != strings.HasPrefix(x, y) && strings.HasPrefix(a, b) {
			t.Errorf("%q begins with %q, and %q not with %q", a, b, x, y)
		}
		if strings.ContainsAny(x, `{}|*?[]\`+"\n\x00") {
			t.Errorf("%q is escaped to %q", a, x)
		}
		if back, ok := percent.Unescape(x); !ok || back != a {
			t.Errorf("%q comes back as %q", a, back)
		}
	})
}
