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

// longestShown is how many bytes of a name stand in a message.
const longestShown = 64

// Quote writes a name for a message: in quotes, with escapes for what is not printable, and a long one cut.
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

// Shown writes a word that anybody may have chosen for a message: as it is if it is short and printable, and otherwise
// as Quote does.
func Shown(word string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
	if len(word) > longestShown || strings.ContainsFunc(word, hidden) {
		return Quote(word)
	}
	return word
}

// CheckName says whether every store can keep a line of this name: it is not empty, is UTF-8 without NUL, and
// has at most MaxName bytes. The error wraps ErrBadName and says what is wrong.
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
