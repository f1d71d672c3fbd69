package rediswire

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// ErrNil is the error of a reply that has no value.
var ErrNil = errors.New("redis nil message")

// A Refusal is an error that a server has replied with. A leading "ERR " is cut off.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// IsRefusal reports whether err is a Refusal, and returns it.
func IsRefusal(err error) (Refusal, bool) {
	r, ok := err.(Refusal) //nolint:errorlint // one that was wrapped has got its meaning already
	return r, ok
}

// Moved returns the address in a reply that names the node which keeps the slot.
func (r Refusal) Moved() (address string, ok bool) {
	words := strings.Fields(string(r))
	if len(words) < 3 || words[0] != "MOVED" {
		return "", false
	}
	return bracketed(words[2]), true
}

// bracketed returns HOST:PORT with brackets around an IPv6 host, which servers leave out.
func bracketed(address string) string {
	colon := strings.LastIndexByte(address, ':')
	if colon < 0 || !strings.Contains(address[:colon], ":") || address[0] == '[' {
		return address
	}
	return "[" + address[:colon] + "]" + address[colon:]
}

// IsAsk reports whether the key has gone to another node while its slot is being moved.
func (r Refusal) IsAsk() bool { return strings.HasPrefix(string(r), "ASK ") }

// IsTryAgain reports whether some keys of the command have gone to another node and others have not.
func (r Refusal) IsTryAgain() bool { return strings.HasPrefix(string(r), "TRYAGAIN") }

// IsClusterDown reports whether the cluster does not serve the slot.
func (r Refusal) IsClusterDown() bool { return strings.HasPrefix(string(r), "CLUSTERDOWN") }

// isNoScript reports whether the server does not know the script by its name.
func (r Refusal) isNoScript() bool { return strings.HasPrefix(string(r), "NOSCRIPT") }

// A Reply is what a server has replied to one command, or why there is no reply. The zero value is neither.
type Reply struct {
	failure error // why there is no reply
	kind    byte  // as in the protocol; nulls of all forms are '_', and booleans are ':'
	number  int64 // of ':'
	text    string
	list    []Reply // of aggregates; a map has its keys and values in turn
}

// NewFailure returns a reply that failed with err before it came.
func NewFailure(err error) Reply { return Reply{failure: err} }

// Failures returns n replies that failed with err.
func Failures(n int, err error) []Reply {
	return slices.Repeat([]Reply{NewFailure(err)}, n)
}

// Failure returns why there is no reply; nil if the server replied, whatever it was.
func (r Reply) Failure() error { return r.failure }

// Error returns why there is no reply, the Refusal that the server replied with, or ErrNil if the reply has no value.
func (r Reply) Error() error {
	switch {
	case r.failure != nil:
		return r.failure
	case r.kind == '-' || r.kind == '!':
		return Refusal(strings.TrimPrefix(r.text, "ERR "))
	case r.kind == '_':
		return ErrNil
	}
	return nil
}

// isText reports whether the reply is a string of any form.
func (r Reply) isText() bool { return r.kind == '+' || r.kind == '$' || r.kind == '=' }

// unlike returns the error of a reply that is not what was expected.
func (r Reply) unlike(what string) error {
	if err := r.Error(); err != nil {
		return err
	}
	return fmt.Errorf("%w: not %s", ErrShape, what)
}

// Int64 returns an integer. It fails for everything else, also for a string of digits.
func (r Reply) Int64() (int64, error) {
	if r.kind != ':' {
		return 0, r.unlike("a number")
	}
	return r.number, nil
}

// Number returns an integer, also one that is written as a string.
func (r Reply) Number() (int64, error) {
	if r.isText() {
		n, err := strconv.ParseInt(r.text, 10, 64)
		if err != nil {
			return 0, r.unlike("a number")
		}
		return n, nil
	}
	return r.Int64()
}

// Text returns a string.
func (r Reply) Text() (string, error) {
	if !r.isText() {
		return "", r.unlike("a text")
	}
	return r.text, nil
}

// List returns the elements of an array, of a set or, in pairs, of a map.
func (r Reply) List() ([]Reply, error) {
	if r.kind != '*' && r.kind != '~' && r.kind != '%' {
		return nil, r.unlike("a list")
	}
	return r.list, nil
}

// Texts returns an array of strings. Numbers among them are written as such, and what has no value is empty.
func (r Reply) Texts() ([]string, error) {
	return readList(r, func(e Reply) (string, error) {
		switch e.kind {
		case ':':
			return strconv.FormatInt(e.number, 10), nil
		case '_':
			return "", nil
		}
		return e.Text()
	})
}

// Numbers returns an array of integers, which may be written as strings.
func (r Reply) Numbers() ([]int64, error) { return readList(r, Reply.Number) }

// Any returns a string, an int64, nil or a []any of them. What was refused is an error, inside of an array too.
func (r Reply) Any() (any, error) {
	switch {
	case r.failure == nil && r.kind == '_':
		return nil, nil
	case r.isText():
		return r.text, nil
	case r.kind == ':':
		return r.number, nil
	}
	all, err := readList(r, Reply.Any)
	if err != nil {
		return nil, err // and not a nil []any
	}
	return all, nil
}

// readList returns what read returns for each element of a list, or the first error of read.
func readList[T any](r Reply, read func(Reply) (T, error)) ([]T, error) {
	list, err := r.List()
	if err != nil {
		return nil, err
	}
	all := make([]T, len(list))
	for i := range list {
		if all[i], err = read(list[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// FromRueidis returns the replies that a client of rueidis' got.
func FromRueidis(results ...rueidis.RedisResult) []Reply {
	replies := make([]Reply, len(results))
	for i, result := range results {
		replies[i] = fromRueidis(result)
	}
	return replies
}

func fromRueidis(result rueidis.RedisResult) Reply {
	message, err := result.ToMessage()
	if refused, ok := rueidis.IsRedisErr(err); ok {
		return Reply{kind: '-', text: refused.Error()}
	}
	if err != nil && !rueidis.IsRedisNil(err) {
		return NewFailure(err)
	}
	return fromMessage(&message)
}

func fromMessage(m *rueidis.RedisMessage) Reply {
	switch {
	case m.IsNil():
		return Reply{kind: '_'}
	case m.IsInt64():
		n, _ := m.AsInt64()
		return Reply{kind: ':', number: n}
	case m.IsArray():
		elements, _ := m.ToArray()
		list := make([]Reply, len(elements))
		for i := range elements {
			list[i] = fromMessage(&elements[i])
		}
		return Reply{kind: '*', list: list}
	case m.IsMap():
		pairs, _ := m.ToMap()
		list := make([]Reply, 0, 2*len(pairs))
		for key, value := range pairs {
			list = append(list, Reply{kind: '$', text: key}, fromMessage(&value))
		}
		return Reply{kind: '%', list: list}
	}
	if refused, ok := rueidis.IsRedisErr(m.Error()); ok {
		return Reply{kind: '-', text: refused.Error()}
	}
	text, err := m.ToString()
	if err != nil {
		return NewFailure(err)
	}
	return Reply{kind: '$', text: text}
}
