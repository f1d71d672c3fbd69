package frame_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A sessionServer has sessions of ten seconds, whose handles are 1, 2 and so on.
type sessionServer struct {
	sync.Mutex
	takes   time.Duration // until a response
	err     error         // of renewals
	lost    bool          // it has the session no more
	handle  int
	renewed int
	ended   int // the session that was ended

	proofless bool // its renewals extend nothing
}

func (s *sessionServer) Open(ctx context.Context) (handle int, ttl time.Duration, sent time.Time, err error) {
	sent = time.Now()
	err = s.respond(ctx)
	s.Lock()
	defer s.Unlock()
	s.handle, s.lost = s.handle+1, false
	return s.handle, 10 * time.Second, sent, err
}

func (s *sessionServer) Renew(ctx context.Context, handle int) (stands bool, sent time.Time, err error) {
	sent = time.Now()
	err = s.respond(ctx)
	s.Lock()
	defer s.Unlock()
	s.renewed++
	if s.proofless {
		sent = time.Time{}
	}
	return handle == s.handle && !s.lost, sent, errors.Join(err, s.err)
}

func (s *sessionServer) End(_ context.Context, handle int) { s.ended = handle }

func (s *sessionServer) respond(ctx context.Context) error {
	s.Lock()
	after := time.After(s.takes)
	s.Unlock()
	select {
	case <-after:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change changes what the server does.
func (s *sessionServer) change(how func()) {
	s.Lock()
	defer s.Unlock()
	how()
}

// A sessionTest is a store that has nothing but sessions.
type sessionTest struct {
	*testing.T
	*frame.Frame
	*frame.Sessions[int]
	server  sessionServer
	losses  int
	renewed []error // the renewals that were due by themselves
}

// withSessions runs a test in fake time.
func withSessions(t *testing.T, test func(*sessionTest)) {
	synctest.Test(t, func(t *testing.T) {
		s := &sessionTest{T: t, Frame: newFrame(t, frame.Config{Drift: frame.Clocks})}
		s.Sessions = frame.NewSessions(s.Frame, frame.SessionConfig[int]{
			Server:  &s.server,
			Mutex:   frame.NewMutex(s.Frame),
			Lost:    func(*frame.Session[int]) { s.losses++; s.Sessions.Mutex.Push(store.ID{1}, store.Status{}) },
			Renewed: func(err error) { s.renewed = append(s.renewed, err) },
		})
		s.Go(s.Sessions.Run)
		test(s)
		s.Frame.End()
		s.Wait()
	})
}

// sleep lets time pass, and what is due then be done.
func (t *sessionTest) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (t *sessionTest) open() *frame.Session[int] {
	t.Helper()
	ses, err := t.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ses
}

func (t *sessionTest) wantUntil(ses *frame.Session[int], sent time.Time) {
	t.Helper()
	if got, want := ses.Until().Sub(sent), 10*time.Second-102*time.Millisecond; got != want {
		t.Errorf("it is valid for %v after the request was sent, want %v", got, want)
	}
}

// TestSessionCountsFromSending: a session is valid for its ttl from when it was last asked for, less the drift, however
// late the response comes.
func TestSessionCountsFromSending(t *testing.T) {
	withSessions(t, func(t *sessionTest) {
		t.server.change(func() { t.server.takes = 2 * time.Second })
		sent := time.Now()
		ses := t.open()
		t.wantUntil(ses, sent)
		sent = time.Now()
		if err := t.Renew().Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.wantUntil(ses, sent)
	})
}

// TestSessionIsRenewed: three times per ttl, by itself, and more often after a failure.
func TestSessionIsRenewed(t *testing.T) {
	withSessions(t, func(t *sessionTest) {
		ses := t.open()
		t.sleep(11 * time.Second)
		if n := len(t.renewed); n != 3 || t.server.renewed != 3 {
			t.Errorf("it was renewed %d times in 11 s", n)
		}
		until := ses.Until()
		t.server.change(func() { t.server.err = errRefused })
		t.sleep(9 * time.Second)
		last := t.renewed[len(t.renewed)-1]
		if n := len(t.renewed); n < 8 || last == nil || store.Final(last) {
			t.Errorf("%d renewals, the last with %v", n, last)
		}
		if !ses.Until().Equal(until) {
			t.Error("renewals that failed have moved Until")
		}
	})
}

// TestSilentRenewal: a renewal without a response is given up after half of the ttl.
func TestSilentRenewal(t *testing.T) {
	withSessions(t, func(t *sessionTest) {
		ses := t.open()
		until := ses.Until()
		t.server.change(func() { t.server.takes = time.Minute })
		began := time.Now()
		err := t.Renew().Await(t.Context())
		if err == nil || err.Error() != "test: no response in 5s" || time.Since(began) != 5*time.Second ||
			!ses.Until().Equal(until) {
			t.Errorf("%v after %v, and Until has moved by %v", err, time.Since(began), ses.Until().Sub(until))
		}
	})
}

// TestSessionIsLost: when the server has a session no more, the store is told once, and the next claim begins another.
func TestSessionIsLost(t *testing.T) {
	withSessions(t, func(t *sessionTest) {
		pushes := 0
		t.Notify(func(store.ID, store.Status) {
			t.open() // the mutex is free
			pushes++
		})
		ses := t.open()
		t.server.change(func() { t.server.lost = true })
		if err := t.Renew().Await(t.Context()); err != nil || t.losses != 1 || pushes != 1 {
			t.Fatalf("%v, lost %d times, %d pushes", err, t.losses, pushes)
		}
		t.Sessions.Mutex.Lock()
		t.Lose(ses) // once more, by another way
		is := t.Is(ses) || t.Is(nil)
		t.Sessions.Mutex.Unlock()
		if next := t.open(); is || next == ses || next.Handle != 2 || t.losses != 1 {
			t.Errorf("the next is %d, after %d losses", next.Handle, t.losses)
		}
		t.sleep(11 * time.Second)
		if t.server.renewed < 4 {
			t.Error("the next is not renewed")
		}
	})
}

// TestSessionIsOpenedOnce: claims that need a session at the same time share one.
func TestSessionIsOpenedOnce(t *testing.T) {
	withSessions(t, func(t *sessionTest) {
		t.server.change(func() { t.server.takes = time.Second })
		for range 5 {
			go t.Current(t.Context()) //nolint:errcheck // the server counts
		}
		t.sleep(time.Minute)
		if t.server.handle != 1 {
			t.Errorf("%d sessions were opened", t.server.handle)
		}
	})
}

// TestFreshen: a session is renewed if less than half of its ttl is left.
func TestFreshen(t *testing.T) {
	withSessions(t, func(t *sessionTest) {
		ses := t.open()
		if err := t.Freshen(t.Context(), ses); err != nil || t.server.renewed != 0 {
			t.Errorf("%v, and a new session was renewed %d times", err, t.server.renewed)
		}
		t.server.change(func() { t.server.err = errRefused })
		t.sleep(6 * time.Second)
		t.server.change(func() { t.server.err, t.server.renewed = nil, 0 })
		if err := t.Freshen(t.Context(), ses); err != nil || t.server.renewed != 1 {
			t.Errorf("%v, and an old session was renewed %d times", err, t.server.renewed)
		}
	})
}

// TestSessionsClosed: a session that is opened while the store is closed is not used, and the present one is ended.
func TestSessionsClosed(t *testing.T) {
	withSessions(t, func(t *sessionTest) {
		t.open()
		t.Shut()
		t.Sessions.End()
		if t.server.ended != 1 {
			t.Errorf("session %d was ended", t.server.ended)
		}
		if _, err := t.Current(t.Context()); !errors.Is(err, store.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
	withSessions(t, func(t *sessionTest) {
		t.server.change(func() { t.server.takes = 2 * time.Second })
		time.AfterFunc(time.Second, func() { t.Shut() })
		if _, err := t.Current(t.Context()); !errors.Is(err, store.ErrClosed) {
			t.Errorf("closed meanwhile: %v", err)
		}
	})
}

// TestRoundBeginsAfterItsQuestion: a caller that asks while a round is under way is served by the next, since what this
// one finds may be older than the question.
func TestRoundBeginsAfterItsQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFrame(t, frame.Config{})
		done := 0
		r := frame.NewRounds(f, func() error { time.Sleep(time.Second); done++; return nil })
		first := r.Request()
		time.Sleep(time.Second / 2)
		second, third := r.Request(), r.Request()
		if second == first || third != second {
			t.Error("callers that ask during a round have not got the next")
		}
		if err := second.Await(t.Context()); err != nil || done != 2 {
			t.Errorf("%v after %d rounds", err, done)
		}
		f.Wait()
		if err := r.Request().Await(t.Context()); !errors.Is(err, store.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestSessionExtended: what another request has proved counts like a renewal, and an earlier time takes nothing back.
func TestSessionExtended(t *testing.T) {
	withSessions(t, func(t *sessionTest) {
		ses := t.open()
		t.sleep(time.Second)
		now := time.Now()
		ses.Extend(now)
		ses.Extend(now.Add(-time.Second))
		ses.Extend(time.Time{})
		t.wantUntil(ses, now)
	})
}

// TestSessionNotExtended: renewals that succeed and extend nothing, as when a server can't say since when it knows, are
// repeated, but not without a pause.
func TestSessionNotExtended(t *testing.T) {
	withSessions(t, func(t *sessionTest) {
		t.server.proofless = true
		t.open()
		t.sleep(10 * time.Second)
		if n := t.server.renewed; n < 3 || n > 12 {
			t.Errorf("%d renewals in one ttl", n)
		}
	})
}

// TestSessionOfClosedStore: a session that begins while the store is being closed is ended.
func TestSessionOfClosedStore(t *testing.T) {
	withSessions(t, func(t *sessionTest) {
		t.server.change(func() { t.server.takes = time.Second })
		opening := make(chan error, 1)
		go func() {
			_, err := t.Current(t.Context())
			opening <- err
		}()
		synctest.Wait()
		t.Shut()
		t.Sessions.End()
		if err := <-opening; !errors.Is(err, store.ErrClosed) {
			t.Errorf("the session began: %v", err)
		}
		synctest.Wait()
		if t.server.ended != 1 {
			t.Error("the session of a closed store was left to expire")
		}
	})
}
