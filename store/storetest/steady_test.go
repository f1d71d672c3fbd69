package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// TestPlaySteadily runs a case that fails a number of times, on a machine that is stalled in each run.
func TestPlaySteadily(t *testing.T) {
	for _, c := range []struct {
		name     string
		fails    int
		gap      time.Duration
		silences int
		plays    int
		failures int
	}{
		{"passes", 0, time.Second, 0, 1, 0},
		{"the machine runs", 1, 62 * time.Millisecond, 0, 1, 2},
		{"fails once", 1, 63 * time.Millisecond, 0, 2, 0},
		{"fails twice", 2, time.Second, 0, 3, 0},
		{"fails each time", 9, time.Second, 0, 8, 2},
		{"no response once", 1, 0, 2, 2, 0},
		{"no response each time", 9, 0, 2, 8, 2},
		{"no response, and another failure", 1, 0, 1, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			plays := 0
			play := func() (o outcome) {
				if plays++; plays <= c.fails {
					o.failures, o.silences = []string{"a failure", "another"}, c.silences
				}
				return o
			}
			steady := func() func() time.Duration { return func() time.Duration { return c.gap } }
			o := playSteadily(t, time.Second/16, play, steady)
			if plays != c.plays || len(o.failures) != c.failures {
				t.Errorf("played %d times, with %d failures in the end; want %d and %d", plays, len(o.failures),
					c.plays, c.failures)
			}
		})
	}
}

// TestSilenceIsNoted: a server that does not respond in time is told from one that refuses a request.
func TestSilenceIsNoted(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{fmt.Errorf("Keep: %w", &store.Fault{Err: &store.NoResponseError{After: time.Second}}), 1},
		{&store.Fault{Err: fmt.Errorf("a node: %w", &store.NoResponseError{})}, 1},
		{&store.Fault{Err: errors.New("no response in 500ms")}, 0}, // the text alone is not enough
		{&store.Fault{Err: &store.NoResponseError{}, Final: true}, 0},
		{&store.Fault{Err: errors.New("slow"), Busy: true}, 1},
		{&store.Fault{Err: errors.New("could not serialize access")}, 0},
		{&store.Fault{Err: errors.New("wrong password"), Final: true}, 0},
	} {
		var trial trial
		trial.errorf("%s: %v", "a failure", c.err)
		if trial.outcome.silences != c.want {
			t.Errorf("%v: %d silences, want %d", c.err, trial.outcome.silences, c.want)
		}
	}
}

// TestLapseIsNoted: a claim that is gone before its time has passed is a failure of the store; after it, of the
// machine.
func TestLapseIsNoted(t *testing.T) {
	for _, c := range []struct {
		until time.Duration
		want  int
	}{{-time.Millisecond, 1}, {time.Minute, 0}} {
		var trial trial
		p := contender{client: &client{t: &trial}, until: time.Now().Add(c.until)}
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.demand("Keep", store.Held)
		}()
		<-done
		if o := trial.outcome; len(o.failures) != 1 || o.silences != c.want {
			t.Errorf("gone %v before its time: %q, %d silences, want %d", c.until, o.failures, o.silences, c.want)
		}
	}
}

// An unreachable harness connects no client.
type unreachable struct{ Harness }

func (unreachable) Open(t testing.TB, _ string) (store.Store, Link) {
	t.Fatal("no response")
	return nil, nil
}

// TestFailureToConnect: a failure to connect fails the case, which can be repeated, and not the whole test.
func TestFailureToConnect(t *testing.T) {
	never := scenario{run: func(*trial) { t.Error("it was played without a store") }}
	if o := never.play(t, unreachable{}, fakeTime); len(o.failures) != 1 ||
		!strings.Contains(o.failures[0], "no response") {
		t.Errorf("the failures are %q", o.failures)
	}
}

func TestLongestGap(t *testing.T) {
	for _, c := range []struct {
		name  string
		after []time.Duration // the one before comes each tick, and at last the end
		want  time.Duration
	}{
		{"at once", []time.Duration{0}, 0},
		{"steady", []time.Duration{beat, beat, beat}, beat},
		{"between", []time.Duration{beat, time.Second, beat}, time.Second},
		{"at the end", []time.Duration{beat, time.Second}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ticks, stop, gap := make(chan time.Time), make(chan struct{}), make(chan time.Duration)
				go func() { gap <- longestGap(ticks, stop) }()
				synctest.Wait()
				for i, d := range c.after {
					time.Sleep(d)
					if i == len(c.after)-1 {
						close(stop)
					} else {
						ticks <- time.Now()
					}
				}
				if got := <-gap; got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
			})
		})
	}
}
