package sqlstore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// TestFirstLookIsAtOnce: a grant may have come after the answer to Join, and before this client listened. Then no
// change is seen any more, and no push comes.
func TestFirstLookIsAtOnce(t *testing.T) {
	f := &fake{listens: true}
	bubble(t, f, func(t *testing.T, s *Store, told <-chan push) {
		c := claim(1)
		f.on("Join", func(context.Context) error { f.set(c.ID, store.Held, false); return nil })
		join(t, s, c, store.Waiting)
		wantPush(t, told, 0, c.ID, store.Held)
	})
}

// TestNewcomerIsLookedAt: a claim is granted, and the lookout for others sees that change, before the claim's own Join
// is answered.
func TestNewcomerIsLookedAt(t *testing.T) {
	f := new(fake)
	bubble(t, f, func(t *testing.T, s *Store, told <-chan push) {
		join(t, s, claim(1), store.Waiting)
		time.Sleep(time.Second) // nothing happens
		c := claim(2)
		f.on("Join", func(context.Context) error {
			f.set(c.ID, store.Held, true)
			time.Sleep(time.Second) // the change is looked at
			return nil
		})
		join(t, s, c, store.Waiting)
		if n := f.count("Look"); n < 2 {
			t.Fatalf("looked %d times", n)
		}
		wantPush(t, told, testPace.Most, c.ID, store.Held)
	})
}

// TestFailedLookIsRepeated: a look that failed has seen nothing, and the change that led to it is not seen again.
func TestFailedLookIsRepeated(t *testing.T) {
	for _, failing := range []string{"Changed", "Look"} {
		f := new(fake)
		bubble(t, f, func(t *testing.T, s *Store, told <-chan push) {
			c := claim(1)
			join(t, s, c, store.Waiting)
			f.failOnce(failing, errors.New("busy"))
			f.set(c.ID, store.Held, true)
			wantPush(t, told, testPace.Most+testPace.First, c.ID, store.Held)
		})
	}
}

// TestSlowLook: a look that never returns does not keep the lookout from ever looking again.
func TestSlowLook(t *testing.T) {
	f := new(fake)
	bubble(t, f, func(t *testing.T, s *Store, told <-chan push) {
		c := claim(1)
		f.on("Look", func(ctx context.Context) error { f.on("Look", nil); <-ctx.Done(); return ctx.Err() })
		join(t, s, c, store.Waiting)
		f.set(c.ID, store.Held, false)
		wantPush(t, told, pollTimeout+testPace.First, c.ID, store.Held)
	})
}

// TestLookTells only those of whom it knows that they do not wait any more, and each of them once.
func TestLookTells(t *testing.T) {
	f := new(fake)
	bubble(t, f, func(t *testing.T, s *Store, told <-chan push) {
		granted, gone, unknown := claim(1), claim(2), claim(3)
		for _, c := range []store.Claim{granted, gone, unknown} {
			join(t, s, c, store.Waiting)
		}
		f.set(granted.ID, store.Held, true)
		wantPush(t, told, testPace.Most, granted.ID, store.Held)
		f.set(gone.ID, store.Gone, true)
		wantPush(t, told, testPace.Most, gone.ID, store.Gone)
		f.mu.Lock()
		f.errs[unknown.ID], f.changed = store.ErrFormat, true
		f.mu.Unlock()
		wantNoPush(t, told)
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(f.looked) != 1 || f.looked[0].ID != unknown.ID || f.looked[0].Ticket != 5 {
			t.Errorf("still looks for %v", f.looked)
		}
	})
}

// TestHowOftenItAsks: fast after a change, then more and more slowly, and always seldom if it hears of its grants.
func TestHowOftenItAsks(t *testing.T) {
	for listens, rest := range map[bool]time.Duration{false: testPace.Most, true: testPace.Listening} {
		f := &fake{listens: listens}
		bubble(t, f, func(t *testing.T, s *Store, _ <-chan push) {
			asks := func(in time.Duration) int {
				before := f.count("Changed")
				time.Sleep(in)
				return f.count("Changed") - before
			}
			c := claim(1)
			join(t, s, c, store.Waiting)
			time.Sleep(time.Second)
			if n, want := asks(time.Minute), int(time.Minute/rest); n < want-1 || n > want+1 {
				t.Errorf("listens %v: asked %d times in a minute, want %d", listens, n, want)
			}
			looked := make(chan struct{})
			f.on("Look", func(context.Context) error { close(looked); return nil })
			f.set(c.ID, store.Waiting, true)
			<-looked
			if n := asks(10 * testPace.First); listens != (n == 0) || n > 8 {
				t.Errorf("listens %v: asked %d times in the first %v after a change", listens, n, 10*testPace.First)
			}
		})
	}
}

// TestHowOftenItLooks: without a Detector each look is at the database itself. It begins with the first pause, slows
// down while nothing happens, and begins anew with a claim that joins, or whose status has changed.
func TestHowOftenItLooks(t *testing.T) {
	f := &fake{plain: true}
	bubble(t, f, func(t *testing.T, s *Store, told <-chan push) {
		looks := make(chan time.Time, 10_000)
		f.on("Look", func(context.Context) error { looks <- time.Now(); return nil })
		// pauses demands that the pauses after a look begin with the first one and grow to the longest.
		pauses := func(after string, look time.Time) {
			t.Helper()
			time.Sleep(time.Second)
			var got []time.Duration
			for len(looks) > 0 {
				next := <-looks
				got = append(got, next.Sub(look))
				look = next
			}
			if len(got) < 10 || got[0] != testPace.First || got[len(got)-1] != testPace.Most || !slices.IsSorted(got) {
				t.Errorf("after %s it looks after %v", after, got)
			}
		}
		start := time.Now()
		join(t, s, claim(1), store.Waiting)
		first := <-looks
		if !first.Equal(start) {
			t.Errorf("the first look was after %v", first.Sub(start))
		}
		pauses("the first look", first)
		join(t, s, claim(2), store.Waiting)
		pauses("a claim has joined", <-looks) // the one that was due
		f.set(claim(1).ID, store.Held, true)
		granted := <-looks
		wantPush(t, told, 0, claim(1).ID, store.Held)
		pauses("a grant", granted)
		if n := f.count("Changed"); n != 0 {
			t.Errorf("asked %d times whether something has changed", n)
		}
	})
}

// TestHowOftenItLooksWhileListening: seldom.
func TestHowOftenItLooksWhileListening(t *testing.T) {
	f := &fake{plain: true, listens: true}
	bubble(t, f, func(t *testing.T, s *Store, _ <-chan push) {
		join(t, s, claim(1), store.Waiting)
		before := f.count("Look")
		time.Sleep(time.Minute)
		if n, want := f.count("Look")-before, int(time.Minute/testPace.Listening); n < want-1 || n > want+1 {
			t.Errorf("looked %d times in a minute, want %d", n, want)
		}
	})
}

// TestLookoutEnds: polling ends when no claim waits any more, and begins again with the next waiter.
func TestLookoutEnds(t *testing.T) {
	for how, end := range map[string]func(f *fake, s *Store, c store.Claim) error{
		"left": func(_ *fake, s *Store, c store.Claim) error { return s.Leave(context.Background(), c) },
		"kept, and held": func(f *fake, s *Store, c store.Claim) error {
			f.set(c.ID, store.Held, false)
			_, err := s.Keep(context.Background(), []store.Claim{c})
			return err
		},
		"pushed": func(f *fake, _ *Store, c store.Claim) error {
			f.hear(c.ID, store.Status{State: store.Held})
			return nil
		},
		"looked at": func(f *fake, _ *Store, c store.Claim) error { f.set(c.ID, store.Gone, true); return nil },
	} {
		f := new(fake)
		bubble(t, f, func(t *testing.T, s *Store, _ <-chan push) {
			c := claim(1)
			join(t, s, c, store.Waiting)
			if err := end(f, s, c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(testPace.Most)
			synctest.Wait()
			asked := f.count("Changed")
			time.Sleep(time.Hour)
			if f.count("Changed") != asked {
				t.Errorf("%s: it still asks", how)
			}
			join(t, s, claim(2), store.Waiting)
			time.Sleep(testPace.Most)
			if f.count("Changed") == asked {
				t.Errorf("%s: it does not ask for the next one", how)
			}
		})
	}
}

// TestLookoutEndsWithClose, also if it is just looking.
func TestLookoutEndsWithClose(t *testing.T) {
	f := new(fake)
	bubble(t, f, func(t *testing.T, s *Store, _ <-chan push) {
		f.on("Look", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		join(t, s, claim(1), store.Waiting)
		start := time.Now()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("Close waited for %v", took)
		}
	})
}

// TestNoLookoutAfterClose: the response to a Join that was under way starts no polling, which would never end.
func TestNoLookoutAfterClose(t *testing.T) {
	f := new(fake)
	bubble(t, f, func(t *testing.T, s *Store, _ <-chan push) {
		f.on("Join", func(context.Context) error { return s.Close() })
		join(t, s, claim(1), store.Waiting)
		if n := f.count("Look"); n != 0 {
			t.Errorf("looked %d times", n)
		}
	})
}
