package store

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxName is the greatest length of a name in bytes.
const MaxName = 512

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
