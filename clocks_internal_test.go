package holdfast

import (
	"testing"
	"time"
)

func TestInstantPassesOnEitherClock(t *testing.T) {
	start := time.Now()
	var i instant
	i.set(start.Add(time.Minute), nil)
	if i.passed(start.Add(time.Minute-1)) || !i.passed(start.Add(time.Minute)) {
		t.Fatal("on time")
	}
	// The machine was suspended: the wall clock went on, the monotonic one did not.
	i.wall.Store(start.UnixNano())
	if !i.passed(start.Add(time.Second)) {
		t.Fatal("the wall clock has passed it")
	}
	if left := i.from(start.Add(time.Second)).Sub(start); left > 0 {
		t.Fatalf("it is %v away", left)
	}
	// The wall clock was set back: the monotonic one still counts.
	i.wall.Store(start.Add(time.Hour).UnixNano())
	if !i.passed(start.Add(time.Minute)) {
		t.Fatal("the monotonic clock has passed it")
	}
}

func TestInstantIsLoweredNeverRaised(t *testing.T) {
	start := time.Now()
	var i instant
	i.set(start.Add(time.Minute), nil)
	i.lower(start.Add(time.Hour))
	if !i.passed(start.Add(time.Minute)) {
		t.Fatal("it was raised")
	}
	i.lower(start.Add(time.Second))
	if !i.passed(start.Add(time.Second)) {
		t.Fatal("it was not lowered")
	}
}

func TestBackoffGrowsWithinTheTTL(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		ttl   time.Duration
		fails int32
		most  time.Duration
	}{
		{4800 * time.Millisecond, 0, second / 10}, {4800 * time.Millisecond, 1, second / 10},
		{4800 * time.Millisecond, 3, second * 4 / 10}, {4800 * time.Millisecond, 99, second * 8 / 10},
		{time.Hour, 1, second}, {time.Hour, 99, second},
	} {
		for range 100 {
			if d := backoff(c.ttl, c.fails); d > c.most || d < c.most*3/4 {
				t.Fatalf("after %d failures with a ttl of %v: %v, want up to %v", c.fails, c.ttl, d, c.most)
			}
		}
	}
	if d := backoff(0, 1); d != 0 {
		t.Fatalf("got %v", d)
	}
}
