package store

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the greatest length of a name in bytes.
const MaxName = 512

// longestShown is how many bytes of a name a message has at most.
const longestShown = 64

// Quote returns a name for a message: in quotes, with escapes for what is not printable, and cut if it is long.
func Quote(name string) string {
	if len(name) <= longestShown {
		return strconv.Quote(name)
	}
	end := longestShown
	for end > longestShown-utf8.UTFMax && !utf8.RuneStart(name[end]) {
		end--
	}
	return strconv.Quote(name[:end]) + "…"
}

// Shown returns a text that any client may have chosen, for a message: unchanged if it is short and printable, and
// otherwise as Quote does.
func Shown(text string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	if len(text) > longestShown || strings.ContainsFunc(text, hidden) {
		return Quote(text)
	}
	return text
}

// CheckName checks whether every store can keep a queue of this name: it is not empty, is UTF-8 without NUL, and has at
// most MaxName bytes. The error wraps ErrBadName and says what is wrong.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrBadName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: it has %d bytes, and %d are the most", ErrBadName, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: it is not UTF-8", ErrBadName)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: it has a NUL byte", ErrBadName)
	}
	return nil
}
