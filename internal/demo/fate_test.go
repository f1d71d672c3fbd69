package demo

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPlot(t *testing.T) {
	p := newPlot(20)
	for _, step := range []struct {
		worker, item int
		want         fate
	}{
		{1, 16, paid},
		{2, 15, killed},
		{3, 15, paid}, // nobody else
		{3, 11, paid},
		{1, 10, stopped},
		{3, 10, paid},
		{3, 1, paid},
	} {
		if got := p.choose(step.worker, step.item); got != step.want {
			t.Errorf("worker %d at item %d: fate %d, want %d", step.worker, step.item, got, step.want)
		}
	}
	if p.victim != 2 || p.late.worker != 1 || p.late.item != 10 {
		t.Errorf("killed is %d, stopped is %d at %d", p.victim, p.late.worker, p.late.item)
	}
}

// TestOvertaken: the latecomer wakes up when somebody else has sold what it is about to sell, and four more.
func TestOvertaken(t *testing.T) {
	for _, test := range []struct{ item, until, want int }{{10, 6, 6}, {5, 1, 6}, {2, 1, 3}, {1, 1, 2}} {
		l := &latecomer{worker: 1, item: test.item, since: now(), overtaken: make(chan struct{})}
		sale := func(item int) *report { return &report{Kind: sold, Item: item, Hold: span{End: now()}} }
		// Neither its own sale counts, nor one of another worker that ended before.
		l.countSale(1, sale(1))
		l.countSale(2, &report{Kind: sold, Item: 1, Hold: span{End: l.since - 1}})
		for item := test.item + 1; item >= test.until; item-- {
			select {
			case <-l.overtaken:
				t.Fatalf("item %d: overtaken before %d was sold", test.item, item)
			default:
			}
			l.countSale(2, sale(item))
		}
		<-l.overtaken
		l.countSale(2, sale(1)) // after the sleep
		if l.othersSold != test.want {
			t.Errorf("item %d: %d sales of others were counted, want %d", test.item, l.othersSold, test.want)
		}
	}
}

// A sleeper is a process that counts how often it was stopped and let go on.
type sleeper struct {
	calls string
	onEnd func()
}

func (s *sleeper) pause() error {
	if s.calls += "p"; s.calls == "prp" {
		s.onEnd()
	}
	return nil
}

func (s *sleeper) resume() error { s.calls += "r"; return nil }

// TestStoppedInsideACall: a worker that was stopped where it keeps everyone else from overtaking it is let go on a
// little, and stopped again.
func TestStoppedInsideACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &round{pausable: true, takeover: time.Second}
		r.plot.late = &latecomer{worker: 1, item: 10, overtaken: make(chan struct{})}
		s := &sleeper{onEnd: func() { r.plot.late.countSale(2, &report{Item: 1}) }}
		must(t, r.holdUp(t.Context(), s))
		if s.calls != "prpr" {
			t.Errorf("it was paused and resumed like this: %s", s.calls)
		}
	})
}
