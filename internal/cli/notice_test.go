package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store"
)

func TestNotice(t *testing.T) {
	const s = time.Second
	d := func(d time.Duration) *time.Duration { return &d }
	cases := []struct {
		name             string
		killAfter, grace *time.Duration
		ttl              time.Duration
		canGrace         bool
		want             notice
		lead             time.Duration
		refused          bool
	}{
		{"by default the store waits for the command", nil, nil, 30 * s, true, notice{5 * s, 6 * s, s}, 0, false},
		{"a longer end, a longer grace", d(60 * s), nil, 30 * s, true, notice{60 * s, 61 * s, s}, 0, false},
		{"no time to end", d(0), nil, 30 * s, true, notice{0, s, s}, 0, false},
		{"a short ttl has a small margin", d(s / 5), nil, s, true, notice{s / 5, 6 * s / 5, s / 20}, 0, false},
		{"less grace, an earlier end", d(5 * s), d(2 * s), 30 * s, true, notice{5 * s, 2 * s, s}, 4 * s, false},
		{"more grace than needed", d(5 * s), d(20 * s), 30 * s, true, notice{5 * s, 20 * s, s}, 0, false},
		{"no grace wanted", nil, d(0), 30 * s, true, notice{5 * s, 0, s}, 6 * s, false},
		{"no grace to be had", nil, nil, 30 * s, false, notice{5 * s, 0, s}, 6 * s, false},
		{"the default shrinks", nil, nil, 10 * s, false, notice{10*s/3 - s/2, 0, s / 2}, 10 * s / 3, false},
		{"what was asked for does not", d(5 * s), nil, 10 * s, false, notice{}, 0, true},
		{"nor with too little grace", d(20 * s), d(5 * s), 30 * s, true, notice{}, 0, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n, err := newNotice(c.killAfter, c.grace, c.ttl, c.canGrace)
			if c.refused {
				if exitCode(err) != exitUsage {
					t.Fatalf("not refused: %+v, %v", n, err)
				}
				return
			}
			if err != nil || n != c.want || n.lead() != c.lead {
				t.Fatalf("%+v with a lead of %v, %v; want %+v with %v", n, n.lead(), err, c.want, c.lead)
			}
			until := time.Now()
			if told := n.termBy(until); told.Add(n.killAfter).After(n.killBy(until)) || told.After(until) {
				t.Errorf("told at %v, it is not dead by %v", told.Sub(until), n.killBy(until).Sub(until))
			}
			if n.killBy(until).After(until.Add(n.grace)) {
				t.Error("it may live longer than the store keeps its place")
			}
		})
	}
}

func TestTTLOf(t *testing.T) {
	short, long := 10*time.Second, time.Minute
	for _, c := range []struct {
		name    string
		asked   *time.Duration
		url     time.Duration
		session time.Duration
		want    time.Duration
	}{
		{"nobody says", nil, 0, 0, holdfast.DefaultTTL},
		{"the URL", nil, short, 0, short},
		{"the flag", &long, short, 0, long},
		{"the session", nil, 0, short, short},
		{"all locks of a session have its ttl", &short, 0, long, long},
		{"all locks of a session have its ttl, whoever asks for more", &long, 0, short, short},
	} {
		got := ttlOf(c.asked, store.Location{TTL: c.url}, &store.Abilities{SessionTTL: c.session})
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A fakeGrip is held until somebody says otherwise.
type fakeGrip struct {
	ctx   context.Context
	end   context.CancelCauseFunc
	until time.Time
}

func newFakeGrip(ttl time.Duration) *fakeGrip {
	g := &fakeGrip{until: time.Now().Add(ttl)}
	g.ctx, g.end = context.WithCancelCause(context.Background())
	return g
}

func (g *fakeGrip) Tokens() []holdfast.Token     { return []holdfast.Token{1 << 8} }
func (g *fakeGrip) Context() context.Context     { return g.ctx }
func (g *fakeGrip) Err() error                   { return g.ctx.Err() }
func (g *fakeGrip) Until() time.Time             { return g.until }
func (g *fakeGrip) Unlock(context.Context) error { return nil }

func TestWatch(t *testing.T) {
	const s = time.Second
	broken := errors.New("broken")
	cases := []struct {
		name     string
		notice   notice
		happens  func(*fakeGrip) // the lease has 30 s
		endsBy   error           // nil: it may run
		killedIn time.Duration
	}{
		{"held", notice{5 * s, 6 * s, s}, func(*fakeGrip) { time.Sleep(29 * s) }, nil, 0},
		{"broken", notice{5 * s, 6 * s, s}, func(g *fakeGrip) { g.end(broken) }, broken, 5 * s},
		{"run out", notice{5 * s, 6 * s, s}, func(*fakeGrip) { time.Sleep(30 * s) }, errNotRenewed, 5 * s},
		{"seen late", notice{5 * s, 6 * s, s}, func(*fakeGrip) { time.Sleep(33 * s) }, errNotRenewed, 2 * s},
		{"seen too late", notice{5 * s, 6 * s, s}, func(*fakeGrip) { time.Sleep(time.Hour) }, errNotRenewed, 0},
		{"no grace, early", notice{5 * s, 0, s}, func(*fakeGrip) { time.Sleep(24 * s) }, errNotRenewed, 5 * s},
		{"no grace, not that early", notice{5 * s, 0, s}, func(*fakeGrip) { time.Sleep(24*s - 1) }, nil, 0},
		{
			"broken near its end",
			notice{5 * s, 2 * s, s},
			func(g *fakeGrip) { time.Sleep(28 * s); g.end(broken) },
			broken,
			3 * s,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newFakeGrip(30 * s)
				defer g.end(nil)
				w := &watch{grip: g, notice: c.notice}
				if !w.mayRun() {
					t.Fatalf("it may not even begin: %v", w.why)
				}
				c.happens(g)
				if w.mayRun() != (c.endsBy == nil) || !errors.Is(w.why, c.endsBy) {
					t.Fatalf("it must end because of %v; want %v", w.why, c.endsBy)
				}
				if c.endsBy == nil {
					return
				}
				g.until = time.Now().Add(time.Hour) // a renewal that comes too late
				if w.mayRun() {
					t.Fatal("it may run again")
				}
				if c.killedIn > 0 {
					time.Sleep(c.killedIn - 1)
					if w.mustDie() {
						t.Fatalf("it is killed too early, before %v", c.killedIn)
					}
					time.Sleep(1 * time.Nanosecond)
				}
				if !w.mustDie() {
					t.Fatalf("it is not killed after %v", c.killedIn)
				}
			})
		})
	}
}

// TestWatchWakes checks that whoever sleeps as long as next says does what is due in time, and does not spin.
func TestWatchWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGrip(30 * time.Second)
		defer g.end(nil)
		w := &watch{grip: g, notice: notice{5 * time.Second, 0, time.Second}}
		begin, wakes := time.Now(), 0
		for ; w.mayRun(); wakes++ {
			time.Sleep(w.next())
		}
		if told := time.Since(begin); told != 24*time.Second {
			t.Errorf("told to end after %v", told)
		}
		for ; !w.mustDie(); wakes++ {
			time.Sleep(w.next())
		}
		if killed := time.Since(begin); killed != 29*time.Second {
			t.Errorf("killed after %v", killed)
		}
		if wakes > 40 {
			t.Errorf("it woke up %d times", wakes)
		}
	})
}
