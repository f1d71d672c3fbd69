package verify

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/contend"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/report"
	"github.com/holdfast-go/holdfast/store"
)

// The schedule is a function of its arguments. Every fault comes before any comes again, and they do not overlap.
func TestSchedule(t *testing.T) {
	faults := append(workerFaults(), connectionFaults()...)
	const length, ttl, workers = 3 * time.Minute, 2 * time.Second, 4
	for seed := range uint64(50) {
		strikes := schedule(seed, length, ttl, workers, faults)
		if !slices.Equal(strikes, schedule(seed, length, ttl, workers, faults)) {
			t.Fatalf("seed %d makes two schedules", seed)
		}
		if slices.Equal(strikes, schedule(seed+1, length, ttl, workers, faults)) {
			t.Errorf("seeds %d and %d make the same schedule", seed, seed+1)
		}
		if first := strikes[0]; first.Fault != pauseWriter || first.Which != unfenced {
			t.Errorf("seed %d: the first strike is %+v", seed, first)
		}
		var end time.Duration
		for i, s := range strikes {
			if s.At < end || s.Worker < 0 || s.Worker >= workers || s.At+s.For > length {
				t.Errorf("seed %d: strike %d is %+v, and the one before ends at %v", seed, i, s, end)
			}
			end = s.At + s.For
		}
		if len(strikes) < 2*len(faults) {
			t.Errorf("seed %d: only %d strikes", seed, len(strikes))
		}
		for turn := range slices.Chunk(strikes, len(faults)) {
			seen := map[string]bool{}
			for _, s := range turn {
				if seen[s.Fault] {
					t.Errorf("seed %d: %s comes again before all others have come", seed, s.Fault)
				}
				seen[s.Fault] = true
			}
		}
	}
	if strikes := schedule(1, length, ttl, workers, nil); len(strikes) > 0 {
		t.Errorf("strikes of no fault: %v", strikes)
	}
}

// A proxy is put before servers only where that changes nothing but the way to them.
func TestUnproxied(t *testing.T) {
	for url, proxied := range map[string]bool{
		"redis://h": true, "redis://h:1?startup-delay=2s": true, "valkey://h": true, "redlock://a,b,c?max-ttl=4s": true,
		"postgres://h/db": true, "postgres://h/db?sslmode=disable": true, "mysql://h/db": true, "etcd://a,b": true,
		"zk://a":   true,
		"sqlite:x": false, "rediss://h": false, "redis+unix:///x": false, "redis+sentinel://h/m": false,
		"redis+cluster://h": false,
		"redlocks://a":      false, "etcds://a": false, "postgres://h/db?sslmode=verify-full": false,
		"mysql://h/db?tls=yes":      false,
		"redis://h?wait-replicas=1": true, "postgres://h/db?application_name=x": true,
		"mysql://h/db?server-name=x": false,
		"postgres://h/db?host=/x":    false, "mysql://h/db?socket=/x": false,
		"postgres://h/db?listen=postgres://i/db": false,
	} {
		at, err := store.ParseLocation(url)
		if err != nil {
			t.Fatal(err)
		}
		if why := unproxied(at); (why == "") != proxied {
			t.Errorf("%s: %q", url, why)
		}
	}
}

// Only what began under a fault that is beyond the guarantees, or soon after it, is no violation.
func TestBeyondTheGuarantees(t *testing.T) {
	const second = history.Instant(time.Second)
	s := &stage{plan: &Plan{}, takeover: 2 * time.Second}
	struckAt := func(name, beyond string, from, to history.Instant) {
		s.struck = append(s.struck, struck{
			fault{
				name:   name,
				beyond: beyond,
			}, report.Fault{Name: name, Interval: history.Interval{Begin: from * second, End: to * second}},
		})
	}
	struckAt("pause", "", 20, 25)
	struckAt("server-loses-data", "it forgets", 10, 11)
	at := func(n history.Instant) check.Finding {
		return check.Finding{Rule: check.Exclusion, Holds: []history.Hold{
			{Interval: history.Interval{Begin: second}}, {Interval: history.Interval{Begin: n * second}},
		}}
	}
	run := &report.Run{}
	j := &judgement{run: run, stage: s}
	j.check("exclusion", "", 5, []check.Finding{at(9), at(10), at(15), at(16), at(22)})
	j.tellExpected()
	if n := findings(run, "exclusion"); n != 3 {
		t.Errorf("%d violations, want those at 9, 16 and 22 s", n)
	}
	if n := findings(run, "beyond the guarantees"); n != 2 || !run.Checks[1].Calibration {
		t.Errorf("%d findings beyond the guarantees, want those at 10 and 15 s: %+v", n, run.Checks)
	}
}

// Errors that may pass must do so when everything is mended. A store without a line promises only that somebody gets
// on.
func TestStranded(t *testing.T) {
	const mended = history.Instant(100)
	granted := func(process string, end history.Instant) history.Wait {
		return history.Wait{
			Who:      history.Who{Process: process},
			Interval: history.Interval{Begin: end - 1, End: end},
			Granted:  true,
		}
	}
	gaveUp := granted("b", mended+5)
	gaveUp.Granted = false
	for name, test := range map[string]struct {
		line, settled bool
		mended        history.Instant
		waits         []history.Wait
		want          int
	}{
		"all got on":    {line: true, settled: true, mended: mended, want: 0},
		"stopped early": {line: true, want: 0},
		"one only failed": {line: true, mended: mended,
			waits: []history.Wait{granted("a", mended+3), granted("b", mended-1), gaveUp}, want: 1},
		"slow, but both got on": {line: true, mended: mended,
			waits: []history.Wait{granted("a", mended+3), granted("b", mended+4)}, want: 0},
		"no line, and one got on":  {mended: mended, waits: []history.Wait{granted("a", mended+3), gaveUp}, want: 0},
		"no line, and nobody does": {mended: mended, waits: []history.Wait{granted("a", mended-3), gaveUp}, want: 2},
	} {
		s := &stage{mended: test.mended, settled: test.settled, slots: []*slot{
			{lives: []*contend.Process{{Name: "a"}}}, {lives: []*contend.Process{{Name: "old"}, {Name: "b"}}},
		}}
		s.can.Queue = test.line
		if found := s.stranded(test.waits); len(found) != test.want {
			t.Errorf("%s: %v, want %d", name, found, test.want)
		}
	}
}

// A run in which nothing was broken has shown nothing.
func TestNoFault(t *testing.T) {
	s := &stage{plan: &Plan{}}
	run := &report.Run{}
	s.judge(run, &history.History{}, contend.Report{}, nil)
	if n := findings(run, "faults"); n != 0 || run.Verdict() != report.Undecided {
		t.Errorf("%d findings, and the verdict is %s", n, run.Verdict())
	}
}

// Faults beyond the guarantees are done only when they are asked for.
func TestChoice(t *testing.T) {
	can := []fault{{name: "pause"}, {name: "server-loses-data", beyond: "it forgets"}, {name: "kill"}}
	for _, test := range []struct{ asked, want []string }{
		{nil, []string{"pause", "kill"}},
		{[]string{"server-loses-data"}, []string{"server-loses-data"}},
		{[]string{"kill", "pause"}, []string{"kill", "pause"}},
	} {
		chosen, err := (&Plan{Faults: test.asked}).choose(can)
		var names []string
		for _, f := range chosen {
			names = append(names, f.name)
		}
		if err != nil || !slices.Equal(names, test.want) {
			t.Errorf("asked for %v: %v, %v", test.asked, names, err)
		}
	}
}
