package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestMasters(t *testing.T) {
	g := testGroup(t, mastersSite)
	if want := ", 5 independent masters, no persistence, on loopback"; !strings.HasSuffix(g.About(), want) {
		t.Errorf("it is %q, want %q", g.About(), want)
	}
	for _, m := range g.masters {
		if err := m.do(t.Context(), "SET", "key", "1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, m := range g.masters {
		if n := size(t, m); n != 1 {
			t.Errorf("%s has %d keys, want the record alone", m.addr, n)
		}
	}
	contended := small(2, 1)
	contended.Work = time.Millisecond
	for _, name := range []string{"holdfast-master", "holdfast-redlock", "holdfast-redlock-unsaved", "redsync-redlock", "redsync-redlock-rueidis", "redsync-redlock-failfast"} {
		for _, w := range []*workload{small(1, 1), contended} {
			w.TTL = time.Minute // a node may take a twentieth of it to answer
			m, firstError, err := measureOnce(t.Context(), g, contestantNamed(name), w)
			if err != nil || firstError != "" {
				t.Fatalf("%s: %v, %s", name, err, firstError)
			}
			if m.faults() != 0 || m[throughput] == 0 {
				t.Errorf("%s: %v", name, m)
			}
			if least := float64(2 * (independentMasters/2 + 1)); name != "holdfast-master" && m[callsPerOp] < least {
				t.Errorf("%s: %v calls for a lock, want %v at least: a majority is asked twice", name, m[callsPerOp], least)
			}
		}
	}
}

// A master that stands still is noticed by who needs it, and is on its feet again afterwards.
func TestMasterStopped(t *testing.T) {
	g := testGroup(t, mastersSite)
	w := small(1, 1)
	// A node has a twentieth of the ttl to answer. A half is longer: a turn that the stop makes wait is not its only one.
	w.Lasts, w.TTL, w.Stops = 6*time.Second, 20*time.Second, true
	m, firstError, err := measureOnce(t.Context(), g, contestantNamed("holdfast-redlock"), w)
	if err != nil || firstError != "" {
		t.Fatalf("%v, %s", err, firstError)
	}
	if m.faults() != 0 || m[beforeP50] == 0 || m[afterP50] == 0 || m[afterToBefore] != m[afterP50]/m[beforeP50] {
		t.Errorf("%v", m)
	}
	// Redsync waits for all nodes: with one that stands still it has next to nothing done.
	m, _, err = measureOnce(t.Context(), g, contestantNamed("redsync-redlock"), w)
	if err != nil || m[beforeP50] == 0 || m[afterP50] > 0 && m[afterToBefore] < 5 {
		t.Errorf("%v, %v", m, err)
	}
	for _, m := range g.masters {
		if err := m.do(t.Context(), "PING"); err != nil {
			t.Errorf("%s: %v", m.addr, err)
		}
	}
}

// What cannot be paused is not measured as if it were.
func TestNothingToStop(t *testing.T) {
	w := small(1, 1)
	w.Stops = true
	if _, _, err := measureTest(t, t.Context(), "flock", w); !errors.Is(err, errNoPause) {
		t.Errorf("%v, want %v", err, errNoPause)
	}
	ended := exec.Command(os.Args[0], "-test.run=^$")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	gone := &redisGroup{masters: []*redisServer{{proc: &process{cmd: ended}}}}
	if _, err := gone.Pause(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%v, want %v", err, os.ErrProcessDone)
	}
}

func TestCompareHalves(t *testing.T) {
	turn := func(asked, cycle int64) hold {
		return hold{Asked: asked, Begin: asked + cycle, End: asked + cycle, Released: asked + cycle}
	}
	before := []hold{turn(0, 10e3), turn(20e3, 20e3), turn(50e3, 30e3)}
	during, after := turn(90e3, 20e3), []hold{turn(110e3, 60e3), turn(170e3, 40e3)}
	m := metrics{}
	compareHalves(m, []tally{{Holds: append(before, during)}, {Holds: after}}, 100e3)
	if m[beforeP50] != 20 || m[afterP50] != 40 || m[afterP99] != 60 || m[afterToBefore] != 2 {
		t.Errorf("%v", m)
	}
	m = metrics{}
	if compareHalves(m, []tally{{Holds: before}}, 100e3); m[beforeP50] != 20 || len(m) != 1 {
		t.Errorf("of a lock that nobody got any more: %v", m)
	}
}

func TestTimeHeld(t *testing.T) {
	turns := func(times ...int64) (all []turn) {
		for i := 0; i < len(times); i += 2 {
			all = append(all, turn{hold: hold{Begin: times[i], End: times[i+1]}})
		}
		return all
	}
	for _, test := range []struct {
		name  string
		turns []turn
		want  int64
	}{
		{"nobody", nil, 0},
		{"one after the other", turns(0, 10, 20, 35), 25},
		{"two at once", turns(0, 10, 5, 12), 12},
		{"one inside another", turns(0, 10, 2, 4, 11, 12), 11},
	} {
		if got := timeHeld(test.turns); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}
