package rediswire

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// replies are what servers send, and what is read from it.
var replies = []struct {
	bytes string
	want  any // an error: what Any fails with
}{
	{"+OK\r\n", "OK"},
	{":-12\r\n", int64(-12)},
	{"$5\r\na\r\nbc\r\n", "a\r\nbc"},
	{"$0\r\n\r\n", ""},
	{"$-1\r\n", nil},
	{"*-1\r\n", nil},
	{"_\r\n", nil},
	{"#t\r\n", int64(1)},
	{"=7\r\ntxt:abc\r\n", "abc"},
	{"*0\r\n", []any{}},
	{"*3\r\n:1\r\n*1\r\n$1\r\nx\r\n_\r\n", []any{int64(1), []any{"x"}, nil}},
	{"~1\r\n+a\r\n", []any{"a"}},
	{"|1\r\n+ttl\r\n:3\r\n:7\r\n", int64(7)},
	{"-ERR no\r\n", Refusal("no")},
	{"!9\r\nNOPERM no\r\n", Refusal("NOPERM no")},
	{"%1\r\n+a\r\n:1\r\n", []any{"a", int64(1)}},
	{",1.5\r\n", ErrShape},
}

// TestReplies: replies are read whether they come at once or byte by byte, and one behind the other.
func TestReplies(t *testing.T) {
	all := ""
	for _, r := range replies {
		all += r.bytes
	}
	for _, step := range []int{1, 3, len(all)} {
		var in input
		next := 0
		for rest := all; rest != "" || next < len(replies); {
			n := copy(in.space(), rest[:min(step, len(rest))])
			in.end += n
			rest = rest[n:]
			for {
				reply, ok, err := in.next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				want := replies[next]
				next++
				got, err := reply.Any()
				wrong, fails := want.want.(error)
				if fails && (!errors.Is(err, wrong) || got != nil) || !fails && !reflect.DeepEqual(got, want.want) {
					t.Errorf("%q in steps of %d: %#v and %v, want %#v", want.bytes, step, got, err, want.want)
				}
			}
			if n == 0 {
				break
			}
		}
		if next != len(replies) {
			t.Errorf("in steps of %d there were %d replies, want %d", step, next, len(replies))
		}
	}
}

// TestBadReplies: what is not a reply of a Redis server is an error, as soon as that is clear.
func TestBadReplies(t *testing.T) {
	endless := make([]byte, mostBytes+1)
	endless[0] = '+'
	for name, bytes := range map[string][]byte{
		"a string that does not end": []byte("$1\r\nabc"),
		"a kind that does not exist": []byte("?1\r\n"),
		"a size that is too great":   []byte("$99999999999\r\n"),
		"a line without an end":      endless,
	} {
		in := input{buffer: bytes, end: len(bytes)}
		if _, ok, err := in.next(); ok || !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v, want %v", name, err, ErrShape)
		}
	}
}

// FuzzReplies: whatever a server sends, reading it ends in replies, in an error, or in waiting for more.
func FuzzReplies(f *testing.F) {
	for _, r := range replies {
		f.Add([]byte(r.bytes), byte(1))
	}
	f.Add([]byte(strings.Repeat("*1\r\n", 64)+":1\r\n"), byte(7))
	f.Add([]byte("$99999999999\r\n"), byte(1))
	f.Fuzz(func(t *testing.T, data []byte, step byte) {
		whole, pieces := readAll(data, len(data)), readAll(data, int(step))
		if fmt.Sprintf("%+v", whole) != fmt.Sprintf("%+v", pieces) {
			t.Errorf("at once %#v, and in steps of %d %#v", whole, step, pieces)
		}
	})
}

// readAll returns the replies in data, up to the first error.
func readAll(data []byte, step int) (all []Reply) {
	var in input
	for len(data) > 0 {
		n := copy(in.space(), data[:min(max(step, 1), len(data))])
		in.end += n
		data = data[n:]
		for {
			reply, ok, err := in.next()
			if err != nil {
				return all
			}
			if !ok {
				break
			}
			all = append(all, reply)
		}
	}
	return all
}
