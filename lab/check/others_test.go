package check

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/store"
)

// demand checks which rules the findings break: one for each.
func demand(t *testing.T, name string, found []Finding, want ...Rule) {
	t.Helper()
	var rules []Rule
	for _, f := range found {
		rules = append(rules, f.Rule)
	}
	if !slices.Equal(rules, want) {
		t.Errorf("%s: found %v, want %v", name, found, want)
	}
}

// promised is a hold that was lost while its holder slept: found at one time, with a promise until another.
func promised(h history.Hold, until, found history.Instant) history.Hold {
	h.Until, h.Lost = until*ms, found*ms
	return h
}

func TestSuccession(t *testing.T) {
	a := hold("a", x, tok(1, 0), 0, 2)
	for _, test := range []test{
		{"nothing", nil, nil},
		{"given back", []history.Hold{promised(a, 10, 0), hold("b", x, tok(2, 0), 3, 4)}, nil},
		{"after the promise", []history.Hold{promised(a, 10, 20), hold("b", x, tok(2, 0), 10, 14)}, nil},
		{"before the promise", []history.Hold{promised(a, 10, 20), hold("b", x, tok(2, 0), 9, 14)}, []Rule{EarlyGrant}},
		{"told in time", []history.Hold{promised(a, 10, 8), hold("b", x, tok(2, 0), 9, 14)}, nil},
		{"no promise known", []history.Hold{promised(a, 0, 20), hold("b", x, tok(2, 0), 9, 14)}, nil},
		{"killed", []history.Hold{{Who: a.Who, Resource: "x", Kind: x, Interval: a.Interval, Open: true,
			Until: 10 * ms}, hold("b", x, 0, 9, 14)}, nil},
		{"a reader beside a reader", []history.Hold{promised(hold("a", sh, 0, 0, 2), 10, 20), hold("b", sh, 0, 9, 14)},
			nil},
		{"a writer after a reader", []history.Hold{promised(hold("a", sh, 0, 0, 2), 10, 20), hold("b", x, 0, 9, 14)},
			[]Rule{EarlyGrant}},
		{"the same claim again", []history.Hold{promised(a, 10, 20), hold("a", x, tok(1, 0), 9, 14)}, nil},
		{"another resource", []history.Hold{promised(a, 10, 20), on("y", hold("b", x, tok(2, 0), 9, 14))}, nil},
		{"two are early", []history.Hold{promised(a, 10, 20), hold("b", x, 0, 3, 4), hold("c", x, 0, 5, 6)},
			[]Rule{EarlyGrant, EarlyGrant}},
	} {
		test.run(t, Succession)
	}
}

// arrival is a claim that was sent and acknowledged at these milliseconds.
func arrival(who string, kind history.Kind, ticket uint64, sent, acked history.Instant) history.Arrival {
	return history.Arrival{
		Who: history.Who{Process: who}, Resource: "x", Kind: kind, Ticket: ticket,
		Interval: history.Interval{Begin: sent * ms, End: acked * ms},
	}
}

func TestArrival(t *testing.T) {
	first, second := arrival("a", x, 1, 0, 1), arrival("b", x, 2, 2, 3)
	for _, test := range []struct {
		name     string
		arrivals []history.Arrival
		holds    []history.Hold
		want     []Rule
	}{
		{"nothing", nil, nil, nil},
		{"in order", []history.Arrival{first, second},
			[]history.Hold{hold("a", x, tok(1, 0), 5, 6), hold("b", x, tok(2, 0), 7, 8)}, nil},
		{"overtaken", []history.Arrival{first, second},
			[]history.Hold{hold("b", x, tok(2, 0), 5, 6), hold("a", x, tok(1, 0), 7, 8)}, []Rule{Overtaken}},
		{"overtaken by a reader", []history.Arrival{first, arrival("b", sh, 2, 2, 3)},
			[]history.Hold{hold("b", sh, shared(tok(2, 0)), 5, 6), hold("a", x, tok(1, 0), 7, 8)}, []Rule{Overtaken}},
		{"on their way together", []history.Arrival{arrival("a", x, 1, 0, 4), second},
			[]history.Hold{hold("b", x, tok(2, 0), 5, 6), hold("a", x, tok(1, 0), 7, 8)}, nil},
		{"readers", []history.Arrival{arrival("a", sh, 1, 0, 1), arrival("b", sh, 2, 2, 3)},
			[]history.Hold{hold("b", sh, shared(tok(2, 0)), 5, 6), hold("a", sh, shared(tok(1, 0)), 7, 8)}, nil},
		{"between two turns", []history.Arrival{first, second},
			[]history.Hold{hold("a", x, tok(1, 0), 4, 5), hold("b", x, tok(2, 0), 6, 7), hold("a", x, tok(1, 1), 8, 9)},
			[]Rule{Overtaken}},
		{"after a downgrade", []history.Arrival{first, arrival("b", sh, 2, 2, 3)},
			[]history.Hold{hold("a", x, tok(1, 0), 4, 5), hold("b", sh, shared(tok(2, 0)), 6, 7),
				hold("a", sh, shared(tok(1, 0)), 8, 9)}, nil},
		{"one never held", []history.Arrival{first, second}, []history.Hold{hold("b", x, tok(2, 0), 5, 6)}, nil},
		{"tickets fall", []history.Arrival{arrival("a", x, 9, 0, 1), second}, nil, []Rule{Overtaken}},
		{"a ticket twice", []history.Arrival{arrival("a", x, 2, 0, 1), second}, nil, []Rule{Overtaken}},
		{"tickets of claims on their way together", []history.Arrival{arrival("a", x, 9, 0, 4), second}, nil, nil},
	} {
		demand(t, test.name, Arrival(test.arrivals, test.holds), test.want...)
	}
}

func TestWaiting(t *testing.T) {
	span := func(from, to history.Instant) history.Interval {
		return history.Interval{Begin: from * ms, End: to * ms}
	}
	wait := func(from, to history.Instant) history.Wait {
		return history.Wait{Resource: "x", Interval: span(from, to)}
	}
	for _, test := range []struct {
		name     string
		wait     history.Wait
		troubles []history.Interval
		want     []Rule
	}{
		{"short", wait(0, 10), nil, nil},
		{"long", wait(0, 11), nil, []Rule{LongWait}},
		{"long, in trouble", wait(0, 30), []history.Interval{span(0, 30)}, nil},
		{"long after the healing", wait(0, 30), []history.Interval{span(0, 19)}, []Rule{LongWait}},
		{"short after the healing", wait(0, 30), []history.Interval{span(0, 20)}, nil},
		{"long before the trouble", wait(0, 30), []history.Interval{span(11, 40)}, []Rule{LongWait}},
		{"short between troubles", wait(0, 50), []history.Interval{span(30, 60), span(2, 20)}, nil},
		{"long between troubles", wait(0, 50), []history.Interval{span(30, 60), span(2, 12), span(10, 19)},
			[]Rule{LongWait}},
		{"troubles within troubles", wait(0, 50), []history.Interval{span(2, 45), span(5, 7), span(8, 9)}, nil},
		{"before it began", wait(100, 105), []history.Interval{span(0, 5)}, nil},
	} {
		demand(t, test.name, Waiting([]history.Wait{test.wait}, test.troubles, 10*time.Millisecond), test.want...)
	}
}

// Without a line, only a lock that nobody gets is a finding.
func TestProgress(t *testing.T) {
	wait := func(who string, from, to history.Instant, granted bool) history.Wait {
		return history.Wait{
			Who: history.Who{
				Process: who,
			}, Resource: "x", Granted: granted, Interval: history.Interval{Begin: from * ms, End: to * ms},
		}
	}
	patient := wait("a", 0, 30, false)
	for _, test := range []struct {
		name  string
		waits []history.Wait
		want  []Rule
	}{
		{"nobody gets in", []history.Wait{patient}, []Rule{LongWait}},
		{"others get in", []history.Wait{patient, wait("b", 1, 9, true), wait("b", 10, 18, true),
			wait("c", 5, 25, true)}, nil},
		{"others give up", []history.Wait{patient, wait("b", 1, 9, false), wait("b", 10, 18, false)}, []Rule{LongWait}},
		{"others got in once", []history.Wait{patient, wait("b", 1, 9, true)}, []Rule{LongWait}},
		{"others get in elsewhere", []history.Wait{patient,
			{Resource: "y", Granted: true, Interval: history.Interval{End: 15 * ms}}}, []Rule{LongWait, LongWait}},
	} {
		demand(t, test.name, Progress(test.waits, nil, 10*time.Millisecond), test.want...)
	}
}

// op is an operation of the register "r" that was acknowledged: a read if there is nothing new.
func op(who, old, value string, from, to history.Instant) history.Operation {
	return history.Operation{
		Who: history.Who{Process: who}, Register: "r", Update: value != "", Old: old, New: value,
		Outcome: history.Acknowledged, Interval: history.Interval{Begin: from * ms, End: to * ms},
	}
}

func with(outcome history.Outcome, o history.Operation) history.Operation {
	o.Outcome = outcome
	return o
}

func TestRegister(t *testing.T) {
	for _, test := range []struct {
		name string
		ops  []history.Operation
		want []Rule
	}{
		{"nothing", nil, nil},
		{"one after the other", []history.Operation{op("a", "", "1", 0, 1), op("b", "1", "2", 2, 3),
			op("a", "2", "", 4, 5)}, nil},
		{"told in another order", []history.Operation{op("b", "1", "2", 2, 3), op("a", "", "1", 0, 1)}, nil},
		{"a lost update", []history.Operation{op("a", "", "1", 0, 5), op("b", "", "2", 1, 2)}, []Rule{LostUpdate}},
		{"a lost update, much later", []history.Operation{op("a", "", "1", 0, 9), op("b", "", "2", 1, 2),
			op("b", "2", "3", 3, 4)}, []Rule{LostUpdate}},
		{"a stale read", []history.Operation{op("a", "", "1", 0, 1), op("b", "", "", 2, 3)}, []Rule{Linearizable}},
		{"a read beside an update", []history.Operation{op("a", "", "1", 0, 3), op("b", "", "", 2, 5)}, nil},
		{"a read of the future", []history.Operation{op("b", "1", "", 0, 1), op("a", "", "1", 2, 3)},
			[]Rule{Linearizable}},
		{"a read of nothing written", []history.Operation{op("a", "", "1", 0, 1), op("b", "9", "", 2, 3)},
			[]Rule{Linearizable}},
		{"an update that is gone", []history.Operation{op("a", "", "1", 0, 1), op("b", "1", "2", 2, 3),
			op("a", "1", "", 4, 5)}, []Rule{Linearizable}},
		{"a refused update", []history.Operation{op("a", "", "1", 0, 1), with(history.Refused, op("b", "", "2", 0, 3)),
			op("a", "1", "", 4, 5)}, nil},
		{"a refused update that was seen",
			[]history.Operation{with(history.Refused, op("b", "", "2", 0, 3)), op("a", "2", "", 4, 5)},
			[]Rule{Linearizable}},
		{"an unknown update that nobody saw",
			[]history.Operation{with(history.Unknown, op("a", "", "1", 0, 1)), op("b", "", "2", 2, 3)}, nil},
		{"an unknown update that was seen",
			[]history.Operation{with(history.Unknown, op("a", "", "1", 0, 1)), op("b", "1", "2", 2, 3)}, nil},
		{"an unknown update that is late",
			[]history.Operation{with(history.Unknown, op("a", "", "1", 0, 1)), op("b", "", "", 2, 3),
				op("b", "1", "", 4, 5)}, nil},
		{"an unknown update that came and went",
			[]history.Operation{with(history.Unknown, op("a", "", "1", 0, 1)), op("b", "1", "", 2, 3),
				op("b", "", "", 4, 5)}, []Rule{Linearizable}},
		{"an unknown update over another",
			[]history.Operation{with(history.Unknown, op("a", "", "1", 0, 1)), op("b", "", "2", 2, 3),
				op("c", "1", "", 4, 5)}, []Rule{LostUpdate}},
		{"two that are unknown", []history.Operation{with(history.Unknown, op("a", "", "1", 0, 1)),
			with(history.Unknown, op("b", "1", "2", 2, 3)), op("c", "2", "", 4, 5)}, nil},
	} {
		demand(t, test.name, Register(test.ops), test.want...)
	}
}

// A long history is decided, and what is wrong is found in whatever part it is.
func TestLongRegister(t *testing.T) {
	const n = 20_000
	var ops []history.Operation
	value := func(i history.Instant) string { return strings.Repeat("v", int(i%3)) + time.Duration(i).String() }
	ops = append(ops, op("a", "", value(0), 0, 1))
	for i := history.Instant(1); i < n; i++ {
		ops = append(ops, op("a", value(i-1), value(i), 10*i, 10*i+9))
	}
	began := time.Now()
	demand(t, "long", Register(ops))
	if took := time.Since(began); took > decideWithin {
		t.Errorf("it took %v", took)
	}
	for _, i := range []int{1, partSize, n / 2, n - 1} {
		broken := slices.Clone(ops)
		broken[i].Old = "nothing"
		demand(t, "broken", Register(broken), Linearizable)
	}
}

func TestLeftover(t *testing.T) {
	place := holdfast.Entry{Owner: store.Owner{Label: "worker 1"}, Token: tok(1, 0), Held: true, Left: time.Second}
	demand(t, "empty lines", Leftover([]holdfast.Queue{{Name: "x"}, {Name: "y"}}))
	found := Leftover([]holdfast.Queue{{Name: "x"}, {Name: "y", Entries: []holdfast.Entry{place, place}}})
	demand(t, "two places", found, LeftBehind, LeftBehind)
	want := `left behind: resource "y": a claim with token 256 of worker 1 is still there, for another 1s`
	if found[0].String() != want {
		t.Errorf("found %q, want %q", found[0], want)
	}
}

// TestOtherTexts: findings that are not about holds say what happened, to whom, and when.
func TestOtherTexts(t *testing.T) {
	for _, test := range []struct {
		found []Finding
		want  string
	}{
		{
			Waiting([]history.Wait{{Who: history.Who{Process: "w"}, Resource: "x",
				Interval: history.Interval{End: 11 * ms}}}, nil, 10*time.Millisecond),
			`long wait: resource "x": w waited for 11ms while nothing was broken, and the bound is 10ms`,
		},
		{
			Arrival([]history.Arrival{arrival("a", x, 9, 0, 1), arrival("b", x, 2, 2, 3)}, nil),
			`overtaken: resource "x": a claim of a was acknowledged with ticket 9, ` +
				`and a claim of b that was sent 1ms later got ticket 2`,
		},
		{
			Register([]history.Operation{op("a", "", "1", 0, 5), op("b", "", "2", 1, 2)}),
			`lost update: resource "r": two updates have replaced the same value: ` +
				`update of "" to "1" by a, and update of "" to "2" by b`,
		},
	} {
		if len(test.found) != 1 || test.found[0].String() != test.want ||
			test.found[0].Interval == (history.Interval{}) {
			t.Errorf("found %v, want %s", test.found, test.want)
		}
	}
}
