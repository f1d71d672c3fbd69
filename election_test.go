package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func TestElectionHasOneLeader(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		leading, terms := 0, 0
		var last holdfast.Token
		for range 4 {
			e := r.client().Election("boss")
			for range 5 {
				wg.Go(func() {
					l, err := e.Campaign(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					leading++ // leadership is what keeps this from being a data race
					if leading != 1 || l.Token() <= last {
						t.Errorf("%d lead, with token %v after %v", leading, l.Token(), last)
					}
					if turn := l.Token() & 0x7f; turn != 0 || l.Token().Ticket() == last.Ticket() {
						t.Errorf("leadership was handed over inside the process: turn %d", turn)
					}
					last = l.Token()
					time.Sleep(time.Millisecond)
					leading--
					terms++
					r.check(l.Unlock(t.Context()))
				})
			}
		}
		wg.Wait()
		if terms != 20 {
			t.Errorf("%d of 20 led", terms)
		}
		r.nothingRemains("boss")
	})
}

func TestElectionLeader(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		e := r.client().Election("boss")
		if _, err := e.Leader(t.Context()); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Fatalf("there is no leader: %v", err)
		}
		l := r.lock(r.client().Election("boss", holdfast.WithLabel("10.0.0.7:80"),
			holdfast.WithOwner("node 7")).Campaign)
		since := time.Now()
		candidate := r.begin(r.client().Election("boss", holdfast.WithLabel("10.0.0.8:80")).Campaign)
		r.pass(time.Second)
		got, err := e.Leader(t.Context())
		if err != nil || got.Info != "10.0.0.7:80" || got.Owner.ID != "node 7" || got.Owner.PID == 0 ||
			got.Token != l.Token() ||
			!got.Since.Equal(since) || got.Left != ttl-time.Second {
			t.Fatalf("got %+v, %v", got, err)
		}
		candidate.end()
		r.unlock(l)
		synctest.Wait()
		if got, err := e.Leader(t.Context()); !errors.Is(err, holdfast.ErrNotHeld) || got != (holdfast.Leader{}) {
			t.Fatalf("there should be no leader: %+v, %v", got, err)
		}
		r.lock(r.client().RWMutex("boss").RLock)
		if got, err := e.Leader(t.Context()); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Fatalf("a reader leads: %+v, %v", got, err)
		}
	})
}

func TestElectionBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		var none context.Context
		never := func(context.Context) error { t.Error("it was called"); return nil }
		for what, test := range map[string]struct {
			e    *holdfast.Election
			ctx  context.Context
			want error
		}{
			"bad name":    {c.Election(""), t.Context(), holdfast.ErrBadName},
			"bad option":  {c.Election("boss", holdfast.WithTTL(-1)), t.Context(), holdfast.ErrBadTTL},
			"nil context": {c.Election("boss"), none, holdfast.ErrNilContext},
		} {
			if _, err := test.e.Campaign(test.ctx); !errors.Is(err, test.want) {
				t.Errorf("%s: Campaign: %v", what, err)
			}
			if _, err := test.e.Leader(test.ctx); !errors.Is(err, test.want) {
				t.Errorf("%s: Leader: %v", what, err)
			}
			if err := test.e.Run(test.ctx, never); !errors.Is(err, test.want) {
				t.Errorf("%s: Run: %v", what, err)
			}
			seen := 0
			for _, err := range test.e.Observe(test.ctx) {
				if seen++; !errors.Is(err, test.want) {
					t.Errorf("%s: Observe: %v", what, err)
				}
			}
			if seen != 1 {
				t.Errorf("%s: Observe said %d things", what, seen)
			}
		}
		if err := c.Election("boss").Run(t.Context(), nil); err == nil {
			t.Error("Run without a function said nothing")
		}
	})
}

func TestElectionStepDownHandsOverAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		l := r.lock(r.client().Election("boss").Campaign)
		var candidates []*call
		for range 5 {
			candidates = append(candidates, r.begin(r.client().Election("boss").Campaign))
		}
		r.pass(10 * ttl)
		now := time.Now()
		for i, c := range candidates { // first come, first served
			r.unlock(l)
			if synctest.Wait(); !c.holds() || c.lease.Token() <= l.Token() {
				t.Fatalf("candidate %d does not lead", i)
			}
			l = c.lease
		}
		if time.Since(now) != 0 {
			t.Errorf("it took %v", time.Since(now))
		}
	})
}

func TestElectionReplacesADeadLeader(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		dead := r.lock(c.Election("boss").Campaign)
		next := r.begin(r.client().Election("boss").Campaign)
		r.pass(ttl / 6)
		link.Kill()
		r.pass(ttl/6*5 - time.Second)
		r.waits(next, "the dead one's time is not over")
		r.pass(time.Second)
		if !next.holds() || dead.Err() == nil || next.lease.Token() <= dead.Token() {
			t.Fatalf("it was not replaced after the ttl; the error of the dead one is %v", dead.Err())
		}
	})
}

// A sighting is what Observe reported, in short: a leader, none, or unknown.
type sighting struct {
	says  string
	token holdfast.Token
	at    time.Time
	err   error
}

// sightings are those of an Observe that goes on by itself.
type sightings struct {
	mu   sync.Mutex
	list []sighting
	over bool
	stop context.CancelFunc
}

func (r *rig) observe(e *holdfast.Election) *sightings {
	ctx, cancel := context.WithCancel(r.Context())
	r.Cleanup(cancel)
	s := &sightings{stop: cancel}
	go func() {
		for l, err := range e.Observe(ctx) {
			says := l.Info
			if l == (holdfast.Leader{}) {
				says = "none"
			}
			if err != nil {
				says = "unknown"
			}
			s.mu.Lock()
			s.list = append(s.list, sighting{says, l.Token, time.Now(), err})
			s.mu.Unlock()
		}
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
	}()
	synctest.Wait()
	return s
}

// are checks what was said so far.
func (s *sightings) are(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for _, one := range s.list {
		got = append(got, one.says)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("it saw %q, want %q", got, want)
	}
}

func (s *sightings) last() sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[len(s.list)-1]
}

func (s *sightings) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func TestElectionObserve(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		e := func(label string) *holdfast.Election { return r.client().Election("boss", holdfast.WithLabel(label)) }
		early := r.observe(e("early"))
		early.are(t, "none")
		a := r.lock(e("a").Campaign)
		r.pass(time.Second)
		early.are(t, "none", "a")
		late := r.observe(e("late"))
		late.are(t, "a") // the one of now, at once
		if late.last().token != a.Token() {
			t.Errorf("its token is %v, want %v", late.last().token, a.Token())
		}
		r.pass(10 * ttl) // a renewal is not a change
		late.are(t, "a")

		b := r.begin(e("b").Campaign)
		r.pass(time.Second)
		late.are(t, "a") // nor is a candidate
		r.unlock(a)
		changed := time.Now()
		r.pass(time.Second)
		late.are(t, "a", "b")
		if d := late.last().at.Sub(changed); d > time.Second/2 {
			t.Errorf("it was seen after %v", d)
		}
		again := r.begin(e("b").Campaign) // another term of the same name is a change
		r.unlock(b.lease)
		r.pass(time.Second)
		late.are(t, "a", "b", "b")
		r.unlock(again.lease)
		r.pass(time.Second)
		late.are(t, "a", "b", "b", "none")
		r.pass(time.Minute)
		early.are(t, "none", "a", "b", "b", "none")

		late.stop()
		if synctest.Wait(); !late.ended() || early.ended() {
			t.Error("it does not end with its context")
		}
		late.are(t, "a", "b", "b", "none") // the end is not an error
	})
}

func TestElectionObserveCanBeLeft(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, link := r.linked()
		e := c.Election("boss")
		for l, err := range e.Observe(t.Context()) {
			if err != nil || l != (holdfast.Leader{}) {
				t.Errorf("got %+v, %v", l, err)
			}
			break
		}
		link.Cut()
		for _, err := range e.Observe(t.Context()) {
			if err == nil {
				t.Error("no error")
			}
			break
		}
	})
}

func TestElectionObserveRidesOutAnOutage(t *testing.T) {
	for what, outage := range map[string]func(link linkFaults) (back func()){
		"cut":  func(link linkFaults) func() { link.Cut(); return func() {} },
		"hung": func(link linkFaults) func() { return link.HoldRequests() },
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			c, link := r.linked()
			other := r.client()
			a := r.lock(other.Election("boss", holdfast.WithLabel("a")).Campaign)
			b := r.begin(other.Election("boss", holdfast.WithLabel("b")).Campaign)
			seen := r.observe(c.Election("boss"))
			for _, want := range [][]string{{"a", "unknown", "a"}, {"a", "unknown", "a", "unknown", "b"}} {
				back := outage(link)
				r.pass(5 * ttl)
				seen.are(t, want[:len(want)-1]...)
				var fault *store.Fault
				if err := seen.last().err; !errors.As(err, &fault) || errors.Is(err, holdfast.ErrNotHeld) {
					t.Errorf("the error is %v", err)
				}
				if want[len(want)-1] == "b" {
					r.unlock(a)
				}
				back()
				link.Heal()
				r.pass(time.Second)
				seen.are(t, want...)
			}
			if !b.holds() || seen.ended() {
				t.Error("it is over")
			}
		})
	}
}

func TestElectionObserveEndsWithClose(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		seen := r.observe(c.Election("boss"))
		now := time.Now()
		c.Close()
		if synctest.Wait(); !seen.ended() || time.Since(now) != 0 {
			t.Fatal("it goes on")
		}
		if seen.are(t, "none", "unknown"); !errors.Is(seen.last().err, holdfast.ErrClosed) {
			t.Errorf("the error is %v", seen.last().err)
		}
	})
}
