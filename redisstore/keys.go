package redisstore

import (
	"strings"
)

// What a store writes lies under these names, where P and N are prefix and name, escaped:
//
//	holdfast:{P|N}        the line of a name; with :r, :o and :d behind it the rest of a line of several claims
//	holdfast:{P}:mark     the highest ticket
//	holdfast:{P}:run      the server's run, and since when
//	holdfast:{P}:id       the store's identity
//	holdfast:{P}:push:X   the channel of one process
//
// The braces make all keys of a name lie on one node of a cluster.
const (
	keyRoot = "holdfast:{"
	keyEnd  = "}"
)

// escaped are the bytes that are written as %XX in keys: those that the keys themselves, hash tags and patterns give a
// meaning to, and those that a terminal would not show. No two names are escaped alike, a name that begins with another
// is escaped to what begins with the other's, and a key has no character that is special in a pattern.
func escaped(c byte) bool {
	return c < ' ' || c == 0x7f || strings.IndexByte(`%{}|*?[]\`, c) >= 0
}

func escape(s string) string {
	plain := 0
	for plain < len(s) && !escaped(s[plain]) {
		plain++
	}
	if plain == len(s) {
		return s
	}
	const hexDigits = "0123456789ABCDEF"
	b := append(make([]byte, 0, len(s)+16), s[:plain]...)
	for i := plain; i < len(s); i++ {
		if c := s[i]; escaped(c) {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

// unescape undoes escape. It says whether s can have come from there.
func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			if i+2 >= len(s) {
				return "", false
			}
			high, low := strings.IndexByte("0123456789ABCDEF", s[i+1]), strings.IndexByte("0123456789ABCDEF", s[i+2])
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

// keySpace makes the keys of one tenant.
type keySpace struct {
	lines  string // holdfast:{P|
	mark   string
	run    string
	id     string
	pushes string // the beginning of its channels
}

func newKeySpace(prefix string) keySpace {
	p := escape(prefix)
	own := keyRoot + p + keyEnd + ":"
	return keySpace{
		lines:  keyRoot + p + "|",
		mark:   own + "mark",
		run:    own + "run",
		id:     own + "id",
		pushes: own + "push:",
	}
}

// line is the first key of a name's line. The scripts make the others of it.
func (k *keySpace) line(name string) string { return k.lines + escape(name) + keyEnd }

// name is the name whose line has this key, if it is the first key of a line of this tenant.
func (k *keySpace) name(key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, k.lines)
	if !ok {
		return "", false
	}
	rest, ok = strings.CutSuffix(rest, keyEnd)
	if !ok || rest == "" {
		return "", false
	}
	return unescape(rest)
}
