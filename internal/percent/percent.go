// Package percent escapes names for keys: characters that have a meaning in a store's keys are written as %XX, and so
// are control characters. Different names have different escapes. If a name begins with another name, its escape begins
// with the other's escape.
package percent

import "strings"

// A Set is the ASCII characters that are escaped in addition to % and control characters.
type Set string

const digits = "0123456789ABCDEF"

func (s Set) has(c byte) bool {
	return c < ' ' || c == 0x7f || c == '%' || strings.IndexByte(string(s), c) >= 0
}

// Escape returns text with the characters of the set written as %XX.
func (s Set) Escape(text string) string {
	plain := 0
	for plain < len(text) && !s.has(text[plain]) {
		plain++
	}
	if plain == len(text) {
		return text
	}
	b := append(make([]byte, 0, len(text)+16), text[:plain]...)
	for i := plain; i < len(text); i++ {
		if c := text[i]; s.has(c) {
			b = append(b, '%', digits[c>>4], digits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// Unescape reverses Escape of any set. It reports whether text is a possible result of Escape.
func Unescape(text string) (string, bool) {
	if strings.IndexByte(text, '%') < 0 {
		return text, true
	}
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' {
			if i+2 >= len(text) {
				return "", false
			}
			high, low := strings.IndexByte(digits, text[i+1]), strings.IndexByte(digits, text[i+2])
			if high < 0 || low < 0 {
				return "", false
			}
			c = byte(high<<4 | low)
			i += 2
		}
		b = append(b, c)
	}
	return string(b), true
}
