package redlock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// errShape is for an answer that none of the scripts gives.
var errShape = errors.New("the node gave an answer that is none of ours")

// readAnswer reads what a script answered, as a client of Redis gives it: a string, or a list of one.
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

// readAnswers reads what newKeep was answered, for so many requests. A single string is the answer to all of them.
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

// A words goes through the words of an answer. After the first that is missing or not as it should be, bad is set.
type words struct {
	rest string
	bad  bool
}

// answer reads "CODE STANDING"; of a lock that was granted also its ticket, and of one that is taken "LEFT TICKET
// VALUE".
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

// mostMillis are as many as a duration has room for. Another library may well have set a key for longer.
const mostMillis = int64(1<<63-1) / int64(time.Millisecond)

// standing reads what node.lua says of the node.
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
