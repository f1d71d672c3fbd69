package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// small is a workload that real processes do in a moment, which is long enough for all of them to get their turns on a
// busy machine.
func small(processes, goroutines int) *workload {
	return &workload{
		Name: "small", Processes: processes, Goroutines: goroutines, Names: 1,
		Lasts: time.Second, TTL: lockTTL, columns: byHandover,
	}
}

func measureTest(t *testing.T, ctx context.Context, name string, w *workload) (metrics, string, error) {
	t.Helper()
	on, err := startFolder(ctx, serverSettings{})
	must(t, err)
	defer on.Close()
	return measureOnce(ctx, on, contestantNamed(name), w)
}

// measureWell measures a contestant of which nothing may fail.
func measureWell(t *testing.T, on site, name string, w *workload) metrics {
	t.Helper()
	m, firstError, err := measureOnce(t.Context(), on, contestantNamed(name), w)
	if err != nil || firstError != "" {
		t.Fatalf("%s: %v, %s", name, err, firstError)
	}
	return m
}

// callLimits are what a lock costs: at least, at most alone, and at most while others want it.
type callLimits struct{ least, alone, contended float64 }

// testContestants measures contestants alone and contended, if they take part in that: no two hold at once, and a lock
// costs what it may.
func testContestants(t *testing.T, on site, lasts time.Duration, may callLimits, names ...string) {
	t.Helper()
	contended := small(2, 1)
	contended.Work = time.Millisecond
	for _, name := range names {
		for w, most := range map[*workload]float64{small(1, 1): may.alone, contended: may.contended} {
			if !contestantNamed(name).takesPart(w) {
				continue
			}
			w.Lasts, w.TTL = lasts, time.Minute // a node of several may take a twentieth of the ttl to answer
			m := measureWell(t, on, name, w)
			if m.faults() != 0 || m[throughput] == 0 || m[callsPerOp] < may.least || m[callsPerOp] > most {
				t.Errorf("%s: %v, want from %v to %v calls for a lock", name, m, may.least, most)
			}
		}
	}
}

// The kernel's lock keeps real processes apart.
func TestProcessesThatTakeTurns(t *testing.T) {
	t.Parallel()
	w := small(3, 2)
	w.Work = time.Millisecond
	m, firstError, err := measureTest(t, t.Context(), "flock", w)
	if err != nil || firstError != "" {
		t.Fatalf("%v, %s", err, firstError)
	}
	if m.faults() != 0 || m[throughput] < 3 || m[waitP99] == 0 {
		t.Errorf("%v", m)
	}
	if most := float64(time.Second / w.Work); m[throughput] > most {
		t.Errorf("%v locks a second, and with this work there can be only %v", m[throughput], most)
	}
}

// A lock that lets everybody in is found out, across processes and within one.
func TestProcessesThatDoNot(t *testing.T) {
	t.Parallel()
	for _, w := range []*workload{small(2, 1), small(1, 2)} {
		w.Work = time.Millisecond
		m, _, err := measureTest(t, t.Context(), "test-open-door", w)
		must(t, err)
		if m[overlapCount] == 0 {
			t.Errorf("%d processes with %d goroutines each: no overlap was seen: %v", w.Processes, w.Goroutines, m)
		}
		if _, there := m[handoverRate]; there != (w.Processes > 1) {
			t.Errorf("%d processes: hand-overs are %v", w.Processes, m[handoverRate])
		}
	}
}

func TestGreedyLock(t *testing.T) {
	t.Parallel()
	w := small(1, 2)
	w.Names, w.Work = 2, time.Millisecond
	m, _, err := measureTest(t, t.Context(), "test-greedy", w)
	must(t, err)
	if m[fairShare] != 0 || m[throughput] == 0 || m[evenP99] < 1000*milliseconds(w.Lasts)/10 {
		t.Errorf("who waited in vain is not seen: %v", m)
	}
}

func TestHeldLeases(t *testing.T) {
	w := &workload{
		Name:       "held",
		Processes:  1,
		Goroutines: 4,
		Names:      10,
		Leases:     10,
		TTL:        10 * time.Millisecond,
		columns:    keeping,
	}
	m, _, err := measureTest(t, t.Context(), "test-open-door", w)
	must(t, err)
	// Goroutines that have taken or warmed up and are just about to end may still be counted, or have been.
	if _, there := m[serverCPU]; there || m[lostCount] != 0 || m[acquireRate] == 0 ||
		math.Abs(m[goroutinesEach]) > 0.4 {
		t.Errorf("%v", m)
	}
	if _, _, err := measureTest(t, t.Context(), "flock", w); err == nil {
		t.Error("leases that cannot say whether they are held were believed")
	}
}

func TestContestantsThatFail(t *testing.T) {
	t.Parallel()
	m, firstError, err := measureTest(t, t.Context(), "test-fails", small(1, 1))
	if err != nil || firstError != "test: failed" || m[errorCount] == 0 || m[throughput] == 0 {
		t.Errorf("one that fails at times: %v, %q, %v", m, firstError, err)
	}
	for name, says := range map[string]string{"test-refused": "test: refused", "test-dies": "test: last words"} {
		if m, _, err := measureTest(t, t.Context(), name, small(2, 1)); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v; want an error that says %q", name, m, err, says)
		}
	}
}

// Whoever is told to stop ends the workers, whatever they are at.
func TestStop(t *testing.T) {
	stop := errors.New("test: stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(300*time.Millisecond, func() { cancel(stop) })
	m, _, err := measureTest(t, ctx, "test-hangs", small(2, 1))
	if !errors.Is(err, stop) {
		t.Errorf("%v, %v; want %v", m, err, stop)
	}
}

// A run that is stopped shows what there is.
func TestStoppedRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := &plan{rounds: 1, workloads: []*workload{small(1, 1)}}
	for _, name := range []string{"flock", "test-hangs", "test-open-door"} {
		p.contestants = append(p.contestants, contestantNamed(name))
	}
	r, err := p.run(ctx, func(_ string, args ...any) {
		if slices.Contains(args, any("test-hangs")) {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want %v", err, context.Canceled)
	}
	for i, want := range []int{1, 0, 0} {
		if row := r.cases[0].rows[i]; len(row.rounds) != want {
			t.Errorf("%s has %d rounds, want %d", row.contestant.name, len(row.rounds), want)
		}
	}
}
