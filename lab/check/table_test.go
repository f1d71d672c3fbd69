package check

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/lab/history"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const ms = history.Instant(time.Millisecond)

// hold makes a hold of "x" from and to so many milliseconds.
func hold(who string, kind history.Kind, token holdfast.Token, from, to history.Instant) history.Hold {
	return history.Hold{
		Who: history.Who{Process: who}, Resource: "x", Kind: kind, Token: token,
		Interval: history.Interval{Begin: from * ms, End: to * ms},
	}
}

func units(who string, units, limit int, from, to history.Instant) history.Hold {
	h := hold(who, history.Semaphore, 0, from, to)
	h.Units, h.Limit = units, limit
	return h
}

func on(resource string, h history.Hold) history.Hold {
	h.Resource = resource
	return h
}

// by is a hold by this owner of a client.
func by(owner string, h history.Hold) history.Hold {
	h.Owner = owner
	return h
}

// lostAt is a hold that was found to be lost then.
func lostAt(found history.Instant, h history.Hold) history.Hold {
	h.Lost = found * ms
	return h
}

const (
	x  = history.Exclusive
	sh = history.Shared
)

// tok is a token of its parts.
func tok(ticket, turn holdfast.Token) holdfast.Token { return ticket<<8 | turn }

// shared marks a token.
func shared(t holdfast.Token) holdfast.Token { return t | 1<<7 }

// A test is a history, and the rules that it breaks: one for each finding.
type test struct {
	name  string
	holds []history.Hold
	want  []Rule
}

func (test test) run(t *testing.T, check func([]history.Hold) []Finding) {
	t.Helper()
	found := check(test.holds)
	ok := len(found) == len(test.want)
	for i := range min(len(found), len(test.want)) {
		ok = ok && found[i].Rule == test.want[i]
	}
	if !ok {
		t.Errorf("%s: found %v, want %v", test.name, found, test.want)
	}
}

func TestOverlap(t *testing.T) {
	one := []Rule{Exclusion}
	for _, test := range []test{
		{"nothing", nil, nil},
		{"one after the other", []history.Hold{hold("a", x, 0, 0, 5), hold("b", x, 0, 6, 9)}, nil},
		{"they touch", []history.Hold{hold("a", x, 0, 0, 5), hold("b", x, 0, 5, 9)}, nil},
		{"two exclusive", []history.Hold{hold("a", x, 0, 0, 6), hold("b", x, 0, 5, 9)}, one},
		{"told in another order", []history.Hold{hold("b", x, 0, 5, 9), hold("a", x, 0, 0, 6)}, one},
		{"one within the other", []history.Hold{hold("a", x, 0, 0, 9), hold("b", x, 0, 3, 4)}, one},
		{"a moment within", []history.Hold{hold("a", x, 0, 0, 9), hold("b", x, 0, 3, 3)}, one},
		{"not neighbours", []history.Hold{hold("a", x, 0, 0, 9), hold("b", x, 0, 3, 4), hold("c", x, 0, 5, 6)},
			[]Rule{Exclusion, Exclusion}},
		{"other resources", []history.Hold{hold("a", x, 0, 0, 9), on("y", hold("b", x, 0, 3, 4))}, nil},
		{"readers", []history.Hold{hold("a", sh, 0, 0, 9), hold("b", sh, 0, 3, 4)}, nil},
		{"a writer among readers", []history.Hold{hold("a", sh, 0, 0, 9), hold("b", sh, 0, 1, 2),
			hold("c", x, 0, 3, 4)}, one},
		{"a reader beside a writer", []history.Hold{hold("a", x, 0, 0, 9), hold("b", sh, 0, 3, 4)}, one},
		{"one process against itself", []history.Hold{hold("a", x, 0, 0, 9), hold("a", x, 0, 3, 4)}, one},
		{"the same claim again", []history.Hold{hold("a", x, 7, 0, 9), hold("a", x, 7, 3, 4), hold("a", sh, 7, 5, 6)},
			nil},
		{"the same token elsewhere", []history.Hold{hold("a", x, 7, 0, 9), hold("b", x, 7, 3, 4)}, one},
		{"the same token, another owner",
			[]history.Hold{by("o", hold("a", x, 7, 0, 9)), by("p", hold("a", x, 7, 3, 4))}, one},
		{"as many as fit", []history.Hold{units("a", 2, 3, 0, 9), units("b", 1, 3, 1, 5), units("c", 1, 3, 5, 9)}, nil},
		{"one too many", []history.Hold{units("a", 2, 3, 0, 9), units("b", 1, 3, 1, 5), units("c", 1, 3, 4, 9)},
			[]Rule{Limit}},
		{"more than there is", []history.Hold{units("a", 4, 3, 0, 9)}, []Rule{Limit}},
		{"two limits", []history.Hold{units("a", 1, 3, 0, 9), units("b", 1, 4, 1, 5)}, one},
		{"two limits, one after the other", []history.Hold{units("a", 1, 3, 0, 1), units("b", 1, 4, 1, 5)}, nil},
		{"a reader beside a semaphore", []history.Hold{units("a", 1, 3, 0, 9), hold("b", sh, 0, 1, 5)}, one},
	} {
		test.run(t, Overlap)
	}
}

func TestTokens(t *testing.T) {
	for _, test := range []test{
		{"nothing", nil, nil},
		{"they rise", []history.Hold{hold("a", x, tok(1, 0), 0, 1), hold("b", x, tok(2, 0), 2, 3)}, nil},
		{"they fall", []history.Hold{hold("a", x, tok(2, 0), 0, 1), hold("b", x, tok(1, 0), 2, 3)}, []Rule{Order}},
		{"they fall later", []history.Hold{hold("a", x, tok(5, 0), 0, 1), hold("b", x, tok(6, 0), 2, 3),
			hold("c", x, tok(4, 0), 4, 5)}, []Rule{Order}},
		{"they fall and recover", []history.Hold{hold("a", x, tok(5, 0), 0, 1), hold("b", x, tok(3, 0), 2, 3),
			hold("c", x, tok(4, 0), 4, 5)}, []Rule{Order, Order}},
		{"they stay", []history.Hold{hold("a", x, tok(1, 0), 0, 1), hold("b", x, tok(1, 0), 2, 3)},
			[]Rule{Unique, Order}},
		{"other resources", []history.Hold{hold("a", x, tok(2, 0), 0, 1), on("y", hold("b", x, tok(1, 0), 2, 3))}, nil},
		{"none", []history.Hold{hold("a", x, 0, 0, 1)}, []Rule{Order}},
		{"handed on", []history.Hold{by("o", hold("a", x, tok(1, 0), 0, 1)), by("p", hold("a", x, tok(1, 1), 2, 3))},
			nil},
		{"handed on to another process", []history.Hold{hold("a", x, tok(1, 0), 0, 1), hold("b", x, tok(1, 1), 2, 3)},
			[]Rule{Unique}},
		{"handed on without a turn", []history.Hold{by("o", hold("a", x, tok(1, 0), 0, 1)),
			by("p", hold("a", x, tok(1, 0), 2, 3))}, []Rule{Order}},
		{"downgraded", []history.Hold{hold("a", x, tok(1, 3), 0, 1), hold("a", sh, shared(tok(1, 3)), 1, 2)}, nil},
		{"readers in any order", []history.Hold{hold("a", sh, shared(tok(2, 0)), 0, 9),
			hold("b", sh, shared(tok(1, 0)), 1, 9)}, nil},
		{"readers with one ticket", []history.Hold{by("o", hold("a", sh, shared(tok(2, 0)), 0, 9)),
			by("p", hold("a", sh, shared(tok(2, 0)), 1, 9))}, []Rule{Unique}},
		{"a reader behind a writer", []history.Hold{hold("a", x, tok(2, 0), 0, 1),
			hold("b", sh, shared(tok(1, 0)), 2, 3)}, []Rule{Order}},
		{"a writer behind a reader", []history.Hold{hold("a", sh, shared(tok(3, 0)), 0, 1),
			hold("b", sh, shared(tok(1, 0)), 0, 1), hold("c", x, tok(2, 0), 2, 3)}, []Rule{Order}},
		{"a writer marked as shared", []history.Hold{hold("a", x, shared(tok(1, 0)), 0, 1)}, []Rule{Mark}},
		{"a reader not marked", []history.Hold{hold("a", sh, tok(1, 0), 0, 1)}, []Rule{Mark}},
		{"re-entered", []history.Hold{hold("a", x, tok(1, 0), 0, 9), hold("a", sh, tok(1, 0), 1, 2),
			hold("a", x, tok(1, 0), 3, 4)}, nil},
		{"re-entered by turns", []history.Hold{hold("a", x, tok(1, 0), 0, 3), hold("a", x, tok(1, 0), 2, 6),
			hold("a", sh, tok(1, 0), 5, 9)}, nil},
		{"re-entered, and lost meanwhile",
			[]history.Hold{lostAt(5, hold("a", x, tok(1, 0), 0, 3)), hold("a", x, tok(1, 0), 4, 6)}, nil},
		{"the same token after a loss", []history.Hold{lostAt(5, hold("a", x, tok(1, 0), 0, 3)),
			hold("a", x, tok(1, 0), 6, 7)}, []Rule{Order}},
		{"the same token again", []history.Hold{hold("a", x, tok(1, 0), 0, 3), hold("a", x, tok(1, 0), 4, 6)},
			[]Rule{Order}},
		{"read after one's own lease", []history.Hold{hold("a", x, tok(1, 0), 0, 3), hold("a", sh, tok(1, 0), 4, 6)},
			[]Rule{Mark, Order}},
		{"read under another's lease", []history.Hold{by("o", hold("a", x, tok(1, 0), 0, 9)),
			by("p", hold("a", sh, tok(1, 0), 1, 2))}, []Rule{Mark, Order}},
	} {
		test.run(t, Tokens)
	}
}

// A finding explains itself: the rule, the resource, both holds, and by how much.
func TestTexts(t *testing.T) {
	open := hold("c", x, tok(1, 0), 20, 30)
	open.Open = true
	found := Overlap([]history.Hold{hold("a", x, tok(1, 0), 10, 22), open})
	found = append(found, Tokens([]history.Hold{hold("a", x, tok(9, 0), 10, 11), hold("b", x, tok(7, 0), 12, 13)})...)
	found = append(found, Overlap([]history.Hold{units("a", 2, 3, 0, 9), units("b", 2, 3, 5, 7)})...)
	want := []string{
		"exclusion: resource \"x\": two were held at once for 2ms, and they exclude each other:\n" +
			"  exclusive hold by a with token 256, from 0s to 12ms\n" +
			"  exclusive hold by c with token 256, from 10ms to 20ms or later",
		"token order: resource \"x\": a later hold has a token that is 512 behind:\n" +
			"  exclusive hold by a with token 2304, from 0s to 1ms\n" +
			"  exclusive hold by b with token 1792, from 2ms to 3ms",
		"limit: resource \"x\": 4 units were held at once for 2ms, and the limit is 3:\n" +
			"  semaphore hold by b of 2 of 3 units, from 5ms to 7ms\n" +
			"  semaphore hold by a of 2 of 3 units, from 0s to 9ms",
	}
	if len(found) != len(want) {
		t.Fatalf("%d findings, want %d", len(found), len(want))
	}
	for i, f := range found {
		if f.String() != want[i] || f.Resource != "x" || len(f.Holds) != strings.Count(want[i], "\n") {
			t.Errorf("found:\n%v\nwant:\n%s", f, want[i])
		}
	}
}

func TestFindingsAreBounded(t *testing.T) {
	var holds []history.Hold
	for i := range history.Instant(1000) {
		holds = append(holds, hold("a", x, 0, i, 2000))
	}
	for _, check := range []func([]history.Hold) []Finding{Overlap, Tokens} {
		if found := check(holds); len(found) != maxFindings {
			t.Errorf("%d findings, want %d", len(found), maxFindings)
		}
	}
}

func TestChecksArePure(t *testing.T) {
	holds := []history.Hold{hold("b", x, tok(1, 0), 5, 9), hold("a", x, tok(2, 0), 0, 6)}
	first, second := holds[0], holds[1]
	Overlap(holds)
	Tokens(holds)
	if holds[0] != first || holds[1] != second {
		t.Error("a check changed the history")
	}
}
