package sqlstore

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// TestEveryoneAfterAFault: pushes may have been lost with a call that failed. Everyone is told when one works again,
// once. A refusal is an answer, and nothing is lost with it.
func TestEveryoneAfterAFault(t *testing.T) {
	for what, c := range map[string]struct {
		err  error
		lost bool
	}{
		"a fault":       {&store.Fault{Err: errors.New("down")}, true},
		"no answer":     {context.DeadlineExceeded, true},
		"a mismatch":    {store.ErrMismatch, false},
		"a newer store": {store.ErrFormat, false},
	} {
		f := new(fake)
		bubble(t, f, func(t *testing.T, s *Store, told <-chan push) {
			f.failOnce("Line", c.err)
			if errors.Is(c.err, context.DeadlineExceeded) {
				f.on("Line", func(ctx context.Context) error { f.on("Line", nil); <-ctx.Done(); return ctx.Err() })
			}
			if _, err := s.Queue(t.Context(), "x"); err == nil {
				t.Fatalf("%s: no error", what)
			}
			for range 2 {
				if _, err := s.Queue(t.Context(), "x"); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			if c.lost {
				wantPush(t, told, 0, store.Everyone, store.Gone)
			}
			wantNoPush(t, told)
		})
	}
}

// TestEveryoneAfterACallThatWasGivenUp: a caller that gave up does not know what it has missed.
func TestEveryoneAfterACallThatWasGivenUp(t *testing.T) {
	f := new(fake)
	bubble(t, f, func(t *testing.T, s *Store, told <-chan push) {
		ctx, cancel := context.WithCancel(t.Context())
		f.on("Join", func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() })
		if _, err := s.Join(ctx, claim(1)); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if _, err := s.Queue(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		wantPush(t, told, 0, store.Everyone, store.Gone)
	})
}

// TestCallsGiveUp: without a deadline a call about a claim waits for its ttl, and any other for some time. What it says
// then is that the store did not answer, and not that a context is done.
func TestCallsGiveUp(t *testing.T) {
	short, long := claim(1), claim(2)
	short.TTL = time.Second
	for call, c := range map[string]struct {
		do    func(ctx context.Context, s *Store) error
		limit time.Duration
	}{
		"Join": {func(ctx context.Context, s *Store) error { _, err := s.Join(ctx, short); return err }, short.TTL},
		"Keep": {func(ctx context.Context, s *Store) error {
			_, err := s.Keep(ctx, []store.Claim{long, short})
			return err
		}, short.TTL},
		"Leave": {func(ctx context.Context, s *Store) error { return s.Leave(ctx, short) }, short.TTL},
		"Break": {func(ctx context.Context, s *Store) error { return s.Break(ctx, "x", 5) }, frame.AskTimeout},
		"Line": {func(ctx context.Context, s *Store) error { _, err := s.Queue(ctx, "x"); return err },
			frame.AskTimeout},
		"Names": {func(ctx context.Context, s *Store) (err error) {
			for _, err = range s.Names(ctx, "") {
			}
			return err
		}, frame.AskTimeout},
	} {
		f := new(fake)
		bubble(t, f, func(t *testing.T, s *Store, _ <-chan push) {
			f.on(call, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			start := time.Now()
			err := c.do(t.Context(), s)
			if fault, ok := errors.AsType[*store.Fault](err); !ok || fault.Final || fault.Store != "fake" ||
				errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", call, err)
			}
			if took := time.Since(start); took != c.limit {
				t.Errorf("%s gave up after %v, want %v", call, took, c.limit)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			start = time.Now()
			if err := c.do(ctx, s); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Hour {
				t.Errorf("%s with a deadline: %v after %v", call, err, time.Since(start))
			}
		})
	}
}

// TestUntilCountsFromSending: however late an answer comes, the claim is believed in from when it was asked for. When
// to ask again is counted from the answer.
func TestUntilCountsFromSending(t *testing.T) {
	const late = time.Minute
	f := &fake{opens: time.Second}
	bubble(t, f, func(t *testing.T, s *Store, _ <-chan push) {
		slow := func(context.Context) error { time.Sleep(late); return nil }
		f.on("Join", slow)
		f.on("Keep", slow)
		sent, c := time.Now(), claim(1)
		check := func(what string, status store.Status) {
			if want := sent.Add(ttl - frame.OneClock.Plus); !status.Until.Equal(want) {
				t.Errorf("%s: until %v after it was sent", what, status.Until.Sub(sent))
			}
			if !status.RecheckAt.Equal(sent.Add(late + f.opens)) {
				t.Errorf("%s: ask again %v after it was sent", what, status.RecheckAt.Sub(sent))
			}
		}
		check("Join", join(t, s, c, store.Waiting))
		sent = time.Now()
		kept, err := s.Keep(t.Context(), []store.Claim{c})
		if err != nil {
			t.Fatal(err)
		}
		check("Keep", kept[0])
		f.set(c.ID, store.Gone, false)
		if kept, err = s.Keep(t.Context(), []store.Claim{c}); err != nil || !kept[0].Until.IsZero() ||
			!kept[0].RecheckAt.IsZero() {
			t.Errorf("gone, and still %+v, %v", kept, err)
		}
	})
}

// TestOnlyWaitersListen: to listen costs every client of the database something, and a holder need not.
func TestOnlyWaitersListen(t *testing.T) {
	f := new(fake)
	bubble(t, f, func(t *testing.T, s *Store, _ <-chan push) {
		refused, held := claim(1), claim(2)
		f.set(refused.ID, store.Gone, false)
		join(t, s, refused, store.Gone)
		f.set(held.ID, store.Held, false)
		join(t, s, held, store.Held)
		time.Sleep(time.Minute)
		if n := f.count("Listen"); n != 0 {
			t.Errorf("a client that does not wait is asked to listen %d times", n)
		}
		join(t, s, claim(3), store.Waiting)
		synctest.Wait()
		if f.count("Listen") == 0 {
			t.Error("a client that waits is not asked to listen")
		}
	})
}

// TestSweeps every now and then, whether it works or not, until Close.
func TestSweeps(t *testing.T) {
	f := new(fake)
	bubble(t, f, func(t *testing.T, s *Store, _ <-chan push) {
		f.on("Sweep", func(context.Context) error { return errors.New("busy") })
		time.Sleep(3*sweepEvery + time.Second)
		if n := f.count("Sweep"); n != 3 {
			t.Errorf("swept %d times in three turns", n)
		}
		s.Close()
		time.Sleep(3 * sweepEvery)
		if n := f.count("Sweep"); n != 3 {
			t.Errorf("swept %d times more after Close", n-3)
		}
	})
}

// TestSweepEndsWithClose: Close does not wait for a database that does not respond.
func TestSweepEndsWithClose(t *testing.T) {
	f := new(fake)
	bubble(t, f, func(t *testing.T, s *Store, _ <-chan push) {
		ended := make(chan struct{})
		f.on("Sweep", func(ctx context.Context) error { <-ctx.Done(); close(ended); return ctx.Err() })
		time.Sleep(sweepEvery + time.Millisecond)
		start := time.Now()
		s.Close()
		<-ended
		if took := time.Since(start); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// TestClosedStore: a closed store refuses calls, also those under way, and sends no notification. Closing twice closes
// the engine once.
func TestClosedStore(t *testing.T) {
	f := new(fake)
	bubble(t, f, func(t *testing.T, s *Store, told <-chan push) {
		closed := make(chan struct{})
		f.on("Line", func(context.Context) error { <-closed; return errors.New("use of a closed file") })
		underWay := make(chan error, 1)
		go func() { _, err := s.Queue(t.Context(), "x"); underWay <- err }()
		synctest.Wait()
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		close(closed)
		if err := <-underWay; !errors.Is(err, store.ErrClosed) {
			t.Errorf("under way: %v", err)
		}
		if n := f.count("Close"); n != 1 {
			t.Errorf("the engine was closed %d times", n)
		}
		if _, err := s.Join(t.Context(), claim(1)); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Join: %v", err)
		}
		if _, err := s.Keep(t.Context(), nil); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Keep of nothing: %v", err)
		}
		f.hear(store.ID{1}, store.Status{State: store.Held})
		wantNoPush(t, told)
	})
}

// TestBadNames are refused before the engine sees them.
func TestBadNames(t *testing.T) {
	f := new(fake)
	bubble(t, f, func(t *testing.T, s *Store, _ <-chan push) {
		good, bad := claim(1), claim(2)
		bad.Name = ""
		_, joined := s.Join(t.Context(), bad)
		_, kept := s.Keep(t.Context(), []store.Claim{good, bad})
		_, line := s.Queue(t.Context(), "")
		for what, err := range map[string]error{
			"Join": joined, "Keep": kept, "Leave": s.Leave(t.Context(), bad), "Break": s.Break(t.Context(), "", 5),
			"Line": line,
		} {
			if !errors.Is(err, store.ErrBadName) || f.count(what) != 0 {
				t.Errorf("%s: %v, and the engine was asked %d times", what, err, f.count(what))
			}
		}
	})
}

// A rollingBack is an engine whose server rolls calls back.
type rollingBack struct {
	fake
	retried func(error)
}

func (r *rollingBack) NotifyRetry(fn func(error)) { r.retried = fn }

// TestRetriesAreTold: the engine is told whom to tell. One that never repeats a call is not asked.
func TestRetriesAreTold(t *testing.T) {
	calls := map[string]int{}
	for _, engine := range []Engine{&rollingBack{fake: fake{calls: calls}}, &fake{calls: calls}} {
		s := New(engine, frame.New(frame.Config{Name: "fake", Drift: frame.OneClock}), testPace)
		told := 0
		s.NotifyRetry(func(error) { told++ })
		want := 0
		if r, ok := engine.(*rollingBack); ok {
			r.retried(errors.New("a deadlock"))
			want = 1
		}
		if told != want {
			t.Errorf("%T: told %d times", engine, told)
		}
		s.Close()
	}
}
