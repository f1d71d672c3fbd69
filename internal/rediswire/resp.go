package rediswire

import (
	"bytes"
	"fmt"
	"strconv"
)

// The greatest sizes that a reply may have. No reply to a store comes near them: a greater one is not from a Redis
// server.
const (
	mostBytes    = 64 << 20 // of the reply
	mostElements = 1 << 20  // of one array
	mostDepth    = 16
)

// appendArrayHead appends the beginning of a command of n words.
func appendArrayHead(b []byte, n int) []byte {
	b = strconv.AppendInt(append(b, '*'), int64(n), 10)
	return append(b, '\r', '\n')
}

// appendWord appends one word of a command.
func appendWord(b []byte, word string) []byte {
	b = strconv.AppendInt(append(b, '$'), int64(len(word)), 10)
	b = append(b, '\r', '\n')
	b = append(b, word...)
	return append(b, '\r', '\n')
}

// appendWords appends several words of a command.
func appendWords(b []byte, words ...string) []byte {
	for _, word := range words {
		b = appendWord(b, word)
	}
	return b
}

// A scanner finds the end of a reply whose bytes arrive piece by piece. It never reads a byte of a complete element
// twice.
type scanner struct {
	at   int // up to where the reply was read
	left int // how many elements are missing; 0: the reply has not begun
}

// scan returns the length of the reply that b begins with; 0 if more bytes have to come.
func (s *scanner) scan(b []byte) (length int, err error) {
	if s.left == 0 {
		*s = scanner{left: 1}
	}
	for s.left > 0 {
		line, after, ok := lineAt(b, s.at)
		if !ok {
			return 0, tooLong(b)
		}
		elements, size, err := head(line)
		if err != nil {
			return 0, err
		}
		if size >= 0 {
			if after += size + 2; after > len(b) {
				return 0, tooLong(b)
			}
			if b[after-2] != '\r' || b[after-1] != '\n' {
				return 0, fmt.Errorf("%w: a string that is longer than its size", ErrShape)
			}
		}
		s.at = after
		s.left += elements - 1
		if s.left > mostElements {
			return 0, fmt.Errorf("%w: more than %d elements", ErrShape, mostElements)
		}
	}
	length = s.at
	*s = scanner{}
	return length, nil
}

// tooLong returns an error if b is more than a reply may have, and yet not all of one.
func tooLong(b []byte) error {
	if len(b) > mostBytes {
		return fmt.Errorf("%w: more than %d bytes", ErrShape, mostBytes)
	}
	return nil
}

// lineAt returns the line that begins at an index, without its end, and where the next begins.
func lineAt(b []byte, at int) (line []byte, after int, ok bool) {
	end := bytes.IndexByte(b[at:], '\n')
	if end < 0 {
		return nil, 0, false
	}
	return bytes.TrimSuffix(b[at:at+end], []byte{'\r'}), at + end + 1, true
}

// head reads the first line of an element: how many elements belong to it, and the size of the string that follows, or
// -1 if none does.
func head(line []byte) (elements, size int, err error) {
	if len(line) == 0 {
		return 0, 0, fmt.Errorf("%w: an empty line", ErrShape)
	}
	switch line[0] {
	case '+', '-', ':', '_', ',', '#', '(':
		return 0, -1, nil
	case '$', '=', '!':
		size, err = sizeOf(line, mostBytes)
		return 0, size, err
	case '*', '~', '>':
		elements, err = sizeOf(line, mostElements)
		return max(elements, 0), -1, err
	case '%':
		elements, err = sizeOf(line, mostElements)
		return 2 * max(elements, 0), -1, err
	case '|': // what it is about follows it
		elements, err = sizeOf(line, mostElements)
		return 2*max(elements, 0) + 1, -1, err
	}
	return 0, 0, fmt.Errorf("%w: an element that begins with %q", ErrShape, line[0])
}

// sizeOf reads the size that a line has. -1 is that of a null.
func sizeOf(line []byte, most int) (int, error) {
	n, ok := integer(line[1:])
	if !ok || n < -1 || n > int64(most) {
		return 0, fmt.Errorf("%w: a size of %.20q", ErrShape, line)
	}
	return int(n), nil
}

// integer reads a decimal number.
func integer(digits []byte) (n int64, ok bool) {
	negative := len(digits) > 0 && digits[0] == '-'
	if negative {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 19 {
		return 0, false
	}
	var u uint64
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		u = 10*u + uint64(d-'0')
	}
	if u > 1<<63-1 {
		return 0, false
	}
	if negative {
		return -int64(u), true
	}
	return int64(u), true
}

// parse reads a reply that is complete, as scan has found.
func parse(b []byte) (Reply, error) {
	r, _, err := parseAt(b, 0, 0)
	return r, err
}

func parseAt(b []byte, at, depth int) (r Reply, after int, err error) {
	line, after, _ := lineAt(b, at)
	elements, size, err := head(line)
	if err != nil {
		return r, 0, err
	}
	if depth > mostDepth {
		return r, 0, fmt.Errorf("%w: more than %d levels", ErrShape, mostDepth)
	}
	r.kind = line[0]
	switch r.kind {
	case '|':
		for range elements - 1 {
			if _, after, err = parseAt(b, after, depth+1); err != nil {
				return r, 0, err
			}
		}
		return parseAt(b, after, depth+1)
	case '$', '=', '!', '*', '~', '>', '%':
		if string(line[1:]) == "-1" {
			return Reply{kind: '_'}, after, nil
		}
	}
	switch {
	case r.kind == ':':
		n, ok := integer(line[1:])
		if !ok {
			return r, 0, fmt.Errorf("%w: a number %.30q", ErrShape, line)
		}
		r.number = n
	case r.kind == '#':
		r.kind = ':'
		if string(line[1:]) == "t" {
			r.number = 1
		}
	case size >= 0:
		text := b[after : after+size]
		if r.kind == '=' && size >= 4 {
			text = text[4:] // what form it has
		}
		r.text = string(text)
		after += size + 2
	case r.kind == '+' || r.kind == '-' || r.kind == ',' || r.kind == '(':
		r.text = string(line[1:])
	case r.kind != '_':
		r.list = make([]Reply, 0, min(elements, 1024))
		for range elements {
			var e Reply
			if e, after, err = parseAt(b, after, depth+1); err != nil {
				return r, 0, err
			}
			r.list = append(r.list, e)
		}
	}
	return r, after, nil
}
