package report

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// origin is when fabricated runs begin on the clock of the history: more nanoseconds than a number of JavaScript holds.
const origin history.Instant = 1 << 60

// ms is the interval between two milliseconds of a fabricated run.
func ms(begin, end int) history.Interval {
	at := func(n int) history.Instant { return origin + history.Instant(time.Duration(n)*time.Millisecond) }
	return history.Interval{Begin: at(begin), End: at(end)}
}

// worker is who a worker of a process is.
func worker(process, owner string) history.Who { return history.Who{Process: process, Owner: owner} }

// exclusive is a hold of the resource "stock".
func exclusive(who history.Who, ticket uint64, v history.Interval) history.Hold {
	return history.Hold{
		Who: who, Resource: "stock", Kind: history.Exclusive, Token: holdfast.Token(ticket << 8), Interval: v,
	}
}

// fabricated is a run of these holds, judged by the checks of package check.
func fabricated(holds ...history.Hold) *Run {
	r := &Run{
		Title: "A fabricated run", Store: "redis://user:***@127.0.0.1:6379",
		Command: "holdfast lab run fabricated --seed 7",
		Seed:    7, Started: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Interval: ms(0, 1000), Operations: len(holds),
	}
	r.AddHolds(holds)
	r.AddCheck("mutual exclusion", "Holds that exclude each other are never believed at once.", len(holds),
		check.Overlap(holds))
	r.AddCheck("fencing tokens", "Tokens rise with the holds.", len(holds), check.Tokens(holds))
	return r
}

// brokenRun is a run in which two workers of different processes believed to hold the stock at once for 100 ms.
func brokenRun() *Run {
	a, b := worker("process 0", "a"), worker("process 1", "b")
	r := fabricated(exclusive(a, 10, ms(100, 500)), exclusive(b, 11, ms(400, 700)), exclusive(a, 12, ms(800, 900)))
	r.Worker(b).Spans = append(r.Worker(b).Spans, Span{State: Waiting, Interval: ms(200, 400), Resource: "stock"})
	r.AddToProcess("process 0", Span{State: Paused, Interval: ms(250, 450)})
	r.Faults = []Fault{{Name: "pause", Target: "process 0", Interval: ms(250, 450), Proof: "it answered nothing"}}
	r.Figures = []Figure{{Name: "updates lost", Value: 2.5, Unit: "per second"}}
	return r
}

// cleanRun is a run in which one worker holds after the other.
func cleanRun() *Run {
	a, b := worker("process 0", "a"), worker("process 1", "b")
	return fabricated(exclusive(a, 10, ms(100, 400)), exclusive(b, 11, ms(400, 700)), exclusive(a, 12, ms(800, 900)))
}

func TestVerdict(t *testing.T) {
	found := []Finding{{Text: "it broke"}}
	for _, test := range []struct {
		name       string
		checks     []Check
		want       Verdict
		violations int
	}{
		{"no check", nil, Undecided, 0},
		{"nothing judged", []Check{{Judged: 5}, {Judged: 0}}, Undecided, 0},
		{"nothing found", []Check{{Judged: 5}, {Judged: 1}}, Held, 0},
		{"a finding", []Check{{Judged: 5}, {Judged: 1, Findings: found}}, Broken, 1},
		{"a finding after nothing judged", []Check{{Judged: 0}, {Judged: 1, Findings: found}}, Broken, 1},
		{"a finding among nothing judged", []Check{{Judged: 0, Findings: found}}, Broken, 1},
		{"calibration only", []Check{{Judged: 5, Calibration: true}}, Undecided, 0},
		{"calibration that sees", []Check{{Judged: 5}, {Judged: 5, Findings: found, Calibration: true}}, Held, 0},
		{"calibration that judged nothing", []Check{{Judged: 5}, {Calibration: true}}, Held, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &Run{Checks: test.checks}
			if got, n := r.Verdict(), r.Violations(); got != test.want || n != test.violations {
				t.Errorf("%s with %d violations, want %s with %d", got, n, test.want, test.violations)
			}
		})
	}
	if v := brokenRun().Verdict(); v != Broken {
		t.Errorf("a broken lock: %s", v)
	}
	if v := cleanRun().Verdict(); v != Held {
		t.Errorf("a lock that holds: %s", v)
	}
}

// TestAddHolds checks that each hold becomes a span of its worker.
func TestAddHolds(t *testing.T) {
	a, b := worker("process 0", "a"), worker("process 1", "b")
	pool := history.Hold{
		Who: b, Resource: "pool", Kind: history.Semaphore, Units: 2, Limit: 3, Interval: ms(7, 9), Open: true,
	}
	r := &Run{}
	r.AddHolds([]history.Hold{exclusive(a, 1, ms(1, 2)), pool, exclusive(a, 2, ms(3, 4))})
	want := []*Worker{
		{a, []Span{
			{State: Holding, Interval: ms(1, 2), Resource: "stock", Kind: history.Exclusive, Token: 1 << 8},
			{State: Holding, Interval: ms(3, 4), Resource: "stock", Kind: history.Exclusive, Token: 2 << 8},
		}},
		{b, []Span{{
			State: Holding, Interval: ms(7, 9), Open: true, Resource: "pool", Kind: history.Semaphore, Units: 2,
			Limit: 3,
		}}},
	}
	if !reflect.DeepEqual(r.Workers, want) {
		t.Errorf("got %v, want %v", r.Workers, want)
	}
	r.AddToProcess("process 1", Span{State: Killed, Interval: ms(9, 9)})
	if n, m := len(r.Workers[0].Spans), len(r.Workers[1].Spans); n != 2 || m != 2 {
		t.Errorf("%d and %d spans after process 1 was killed", n, m)
	}
}

// TestAddHistory checks what becomes of waits, losses and updates.
func TestAddHistory(t *testing.T) {
	a := worker("process 0", "a")
	lost := exclusive(a, 1, ms(2, 5))
	lost.Lost = ms(0, 8).End
	operation := func(update bool, outcome history.Outcome, v history.Interval) history.Operation {
		return history.Operation{
			Who: a, Register: "account", Token: 256, Update: update, Old: "v1", New: "v2", Outcome: outcome,
			Interval: v,
		}
	}
	r := &Run{}
	r.AddHistory(&history.History{
		Holds: []history.Hold{lost},
		Waits: []history.Wait{
			{Who: a, Resource: "stock", Kind: history.Exclusive, Interval: ms(0, 2), Granted: true, Token: 256},
			{Who: a, Resource: "stock", Kind: history.Exclusive, Interval: ms(10, 12)},
			{Who: a, Resource: "stock", Kind: history.Exclusive, Interval: ms(13, 13), Open: true},
		},
		Operations: []history.Operation{
			operation(true, history.Acknowledged, ms(3, 4)), operation(true, history.Refused, ms(6, 7)),
			operation(true, history.Unknown, ms(9, 9)), operation(false, history.Acknowledged, ms(9, 9)),
		},
	})
	want := []*Worker{{a, []Span{
		{State: Holding, Interval: ms(2, 5), Resource: "stock", Kind: history.Exclusive, Token: 256},
		{State: Lost, Interval: ms(5, 8), Resource: "stock", Kind: history.Exclusive, Token: 256},
		{State: Waiting, Interval: ms(0, 2), Resource: "stock", Kind: history.Exclusive, Token: 256},
		{State: Waiting, Interval: ms(10, 12), Resource: "stock", Kind: history.Exclusive, Note: "gave up"},
		{State: Waiting, Interval: ms(13, 13), Open: true, Resource: "stock", Kind: history.Exclusive},
		{State: Wrote, Interval: ms(4, 4), Resource: "account", Token: 256, Note: `"v1" to "v2"`},
		{State: Refused, Interval: ms(7, 7), Resource: "account", Token: 256, Note: `"v1" to "v2"`},
	}}}
	if !reflect.DeepEqual(r.Workers, want) {
		t.Errorf("got %v, want %v", r.Workers[0].Spans, want[0].Spans)
	}
}

// TestAddCheck checks when and in which words a report tells what package check has found.
func TestAddCheck(t *testing.T) {
	r := brokenRun()
	c := r.Checks[0]
	if len(c.Findings) != 1 || c.Judged != 3 || c.More {
		t.Fatalf("%+v", c)
	}
	f := c.Findings[0]
	if f.Interval != ms(400, 500) || f.Rule != "exclusion" || f.Resource != "stock" || len(f.Holds) != 2 {
		t.Errorf("%+v", f)
	}
	if want := "two were held at once for 100ms, and they exclude each other"; f.Text != want {
		t.Errorf("%q, want %q", f.Text, want)
	}

	a, b := worker("process 0", "a"), worker("process 1", "b")
	r = fabricated(exclusive(a, 9, ms(0, 1)), exclusive(b, 8, ms(2, 3)))
	if c := r.Checks[1]; len(c.Findings) != 1 || c.Findings[0].Interval != ms(2, 2) {
		t.Errorf("tokens that fall: %+v", c)
	}
	var crowd []history.Hold
	for i := range uint64(20) {
		crowd = append(crowd, exclusive(worker("process 0", string(rune('a'+i))), i+1, ms(int(i), 500)))
	}
	if c := fabricated(crowd...).Checks[0]; !c.More || len(c.Findings) != maxFindings {
		t.Errorf("%d findings of a lock that does not lock, more: %t", len(c.Findings), c.More)
	}
}

// TestJSON checks that a run is the same after it was written and read, but for the origin of its times.
func TestJSON(t *testing.T) {
	r := brokenRun()
	r.Checks[0].Findings[0].Holds[0].Until = ms(0, 510).End
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.String(), "}\n") || strings.Count(b.String(), "\n") != 1 {
		t.Errorf("not one line: %q", b.String())
	}
	written := b.String()
	got, err := ReadJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	if want := r.since(origin); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if f := got.Checks[0].Findings[0]; f.Begin != 400e6 || f.Holds[1].Begin != 400e6 ||
		f.Holds[0].Until != 510e6 || f.Holds[1].Until != 0 || got.Workers[0].Spans[0].Begin != 100e6 {
		t.Errorf("times are not counted from the beginning: %+v", got)
	}
	if r.Begin != origin || r.Workers[0].Spans[0].Begin != ms(100, 0).Begin || r.Faults[0].Begin != ms(250, 0).Begin ||
		r.Checks[0].Findings[0].Interval != ms(400, 500) || r.Checks[0].Findings[0].Holds[0].Begin != ms(100, 0).Begin {
		t.Error("writing has changed the run")
	}

	for what, change := range map[string][2]string{
		"another format":          {`"report":1`, `"report":2`},
		"a verdict that is wrong": {`"verdict":"broken"`, `"verdict":"held"`},
		"a wrong number":          {`"violations":1`, `"violations":0`},
		"no JSON":                 {`{`, `[`},
	} {
		changed := strings.Replace(written, change[0], change[1], 1)
		if _, err := ReadJSON(strings.NewReader(changed)); err == nil || changed == written {
			t.Errorf("%s was read", what)
		}
	}
}

// TestJSONNames checks the names of the fields, which programs of users depend on.
func TestJSONNames(t *testing.T) {
	r := brokenRun()
	r.Workers, r.Checks, r.Operations = r.Workers[1:], r.Checks[:1], 42
	var b, want bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if err := json.Compact(&want, []byte(`{
		"report": 1, "verdict": "broken", "violations": 1,
		"title": "A fabricated run", "store": "redis://user:***@127.0.0.1:6379",
		"command": "holdfast lab run fabricated --seed 7", "seed": "7",
		"started": "2026-02-03T04:05:06Z", "begin": 0, "end": 1000000000, "operations": 42,
		"workers": [{"process": "process 1", "owner": "b", "spans": [
			{"state": "holding", "begin": 400000000, "end": 700000000, "resource": "stock", "kind": "exclusive",
				"token": "2816"},
			{"state": "waiting", "begin": 200000000, "end": 400000000, "resource": "stock"}
		]}],
		"faults": [{"name": "pause", "target": "process 0", "begin": 250000000, "end": 450000000,
			"proof": "it answered nothing"}],
		"checks": [{
			"name": "mutual exclusion", "property": "Holds that exclude each other are never believed at once.",
			"judged": 3,
			"findings": [{
				"rule": "exclusion", "resource": "stock", "begin": 400000000, "end": 500000000,
				"holds": [
					{"process": "process 0", "owner": "a", "resource": "stock", "kind": "exclusive", "token": "2560",
						"begin": 100000000, "end": 500000000},
					{"process": "process 1", "owner": "b", "resource": "stock", "kind": "exclusive", "token": "2816",
						"begin": 400000000, "end": 700000000}
				],
				"text": "two were held at once for 100ms, and they exclude each other"
			}]
		}],
		"figures": [{"name": "updates lost", "value": 2.5, "unit": "per second"}]
	}`)); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(b.String()); got != want.String() {
		t.Errorf("got  %s\nwant %s", got, want.String())
	}
}
