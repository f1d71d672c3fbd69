package redlock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// errShape is the error for an answer that no script gives.
var errShape = errors.New("the node gave an answer that no script of Holdfast gives")

// readAnswer parses the answer of a script, which is a string or a list of one string.
func readAnswer(reply any) (vote.Answer, error) {
	if list, ok := reply.([]any); ok && len(list) == 1 {
		reply = list[0]
	}
	text, ok := reply.(string)
	if !ok {
		return vote.Answer{}, fmt.Errorf("%w: a %T", errShape, reply)
	}
	w := words{rest: text}
	a := w.answer()
	if w.bad {
		return vote.Answer{}, fmt.Errorf("%w: %.100q", errShape, text)
	}
	return a, nil
}

// readAnswers parses the answer to newKeep for count requests. A single string is the answer to all of them.
func readAnswers(reply any, count int) ([]vote.Answer, error) {
	list, several := reply.([]any)
	if several && len(list) != count {
		return nil, fmt.Errorf("%w: %d answers to %d requests", errShape, len(list), count)
	}
	answers := make([]vote.Answer, count)
	for i := range answers {
		if several {
			reply = list[i]
		}
		var err error
		if answers[i], err = readAnswer(reply); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// A words iterates over the words of an answer. It sets bad at the first word that is missing or invalid.
type words struct {
	rest string
	bad  bool
}

// answer parses "CODE STATE", followed by the ticket of a lock that was granted, or by "LEFT TICKET VALUE" of a lock
// that is held.
func (w *words) answer() (a vote.Answer) {
	code, known := vote.ParseCode(w.next())
	a.Code = code
	switch {
	case !known:
		w.bad = true
	case code == vote.Newer:
	case code == vote.Mismatch:
		a.MaxTTL = w.micros()
	default:
		w.standing(&a)
	}
	if code == vote.Granted && w.rest != "" { // to a take
		a.Ticket = w.number()
	}
	if code == vote.Denied {
		left, err := strconv.ParseInt(w.next(), 10, 64)
		w.bad = w.bad || err != nil || left < -1
		a.Left = time.Duration(min(left, mostMillis)) * time.Millisecond
		a.Ticket = w.number()
		a.Holder, w.rest = w.rest, ""
	}
	w.bad = w.bad || w.rest != ""
	return a
}

// mostMillis is the most that fits into a duration. Another library may have set a key for longer.
const mostMillis = int64(1<<63-1) / int64(time.Millisecond)

// standing parses the state of the node, as node.lua writes it.
func (w *words) standing(a *vote.Answer) {
	switch w.next() {
	case "v":
		a.Votes = true
		a.Mark = w.number()
	case "q":
		a.Mark = w.number()
		a.Episode = vote.Episode{Run: w.next(), Since: w.micros()}
		a.Wait = w.micros()
	case "n":
		a.Wait = w.micros()
	default:
		w.bad = true
	}
}

func (w *words) next() string {
	word, rest, _ := strings.Cut(w.rest, " ")
	w.rest = rest
	w.bad = w.bad || word == ""
	return word
}

func (w *words) number() uint64 {
	n, err := strconv.ParseUint(w.next(), 10, 64)
	w.bad = w.bad || err != nil
	return n
}

func (w *words) micros() time.Duration {
	n := w.number()
	w.bad = w.bad || n > uint64(1<<63-1)/uint64(time.Microsecond)
	return time.Duration(n) * time.Microsecond //nolint:gosec // see above
}
