package routines_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/sqlstore/routines"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var (
	errRolledBack = errors.New("rolled back")
	errDemoted    = errors.New("demoted")
	errStuck      = errors.New("stuck")
	errOther      = errors.New("other")
)

// A database is a fake whose answers a test decides on.
type database struct {
	// answer is called for each statement, with how many came before it and the number of its connection.
	answer func(n, conn int, text string) ([]row, error)

	silent atomic.Bool // connections that were idle do not respond

	mu           sync.Mutex
	calls, conns int
	closed       []int
}

// A row is an answer: i, state, ticket, ahead, opens, problem and place.
type row []driver.Value

func answerFor(i int, state string) row {
	return row{int64(i), state, int64(5), int64(-1), int64(0), "", ""}
}

func (d *database) Connect(context.Context) (driver.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns++
	return &conn{d, d.conns}, nil
}

func (d *database) Driver() driver.Driver { return nil }

type conn struct {
	*database
	number int
}

func (c *conn) Prepare(string) (driver.Stmt, error) {
	return nil, errors.New("nothing is to be prepared")
}

func (c *conn) Begin() (driver.Tx, error) { return nil, errors.New("nothing is to be begun") }

func (c *conn) ResetSession(ctx context.Context) error {
	if !c.silent.Load() {
		return nil
	}
	<-ctx.Done()
	return driver.ErrBadConn
}

func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = append(c.closed, c.number)
	return nil
}

func (c *conn) QueryContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Rows, error) {
	c.mu.Lock()
	n := c.calls
	c.calls++
	c.mu.Unlock()
	answers, err := c.answer(n, c.number, text)
	if err != nil {
		return nil, err
	}
	return &rows{answers}, nil
}

type rows struct{ left []row }

func (r *rows) Columns() []string {
	if len(r.left) == 0 {
		return nil
	}
	return make([]string, len(r.left[0]))
}

func (r *rows) Close() error { return nil }

func (r *rows) Next(dest []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(dest, r.left[0])
	r.left = r.left[1:]
	return nil
}

// open returns an engine over a fake, in a bubble of fake time.
func open(t *testing.T, d *database) *routines.Engine {
	t.Helper()
	e := &routines.Engine{
		Dialect: routines.Dialect{
			Text: routines.Text{
				Join: "join", Keep: "keep", Leave: "leave", Look: "look", Tend: "tend", Expired: "expired",
			},
			RolledBack: func(err error) bool { return errors.Is(err, errRolledBack) },
			Demoted:    func(err error) bool { return errors.Is(err, errDemoted) },
			Stuck:      func(err error) bool { return errors.Is(err, errStuck) },
			Unsent:     true,
		},
		Frame: frame.New(frame.Config{Name: "fake"}), DB: sql.OpenDB(d), Owned: true,
	}
	t.Cleanup(func() {
		e.Frame.End()
		e.Frame.Wait()
		e.Close()
	})
	return e
}

// fill has the engine's pool keep so many idle connections.
func fill(t *testing.T, e *routines.Engine, idle int) {
	t.Helper()
	e.DB.SetMaxIdleConns(idle)
	conns := make([]*sql.Conn, idle)
	var err error
	for i := range conns {
		if conns[i], err = e.DB.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range conns {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func claim(n byte) store.Claim { return store.Claim{ID: store.ID{n}, Name: "x", TTL: time.Minute} }

// TestRolledBackIsRepeated: what the server has rolled back is repeated after pauses that grow, and each time is told.
func TestRolledBackIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const times = 20
		d := &database{answer: func(n, _ int, _ string) ([]row, error) {
			if n < times {
				return nil, errRolledBack
			}
			return []row{answerFor(0, "held")}, nil
		}}
		e := open(t, d)
		told := 0
		e.NotifyRetry(func(err error) {
			if !errors.Is(err, errRolledBack) {
				t.Errorf("told of %v", err)
			}
			told++
		})
		c := claim(1)
		start := time.Now()
		answer, err := e.Join(t.Context(), &c)
		if err != nil || answer.State != store.Held || answer.Ticket != 5 {
			t.Errorf("%+v, %v", answer, err)
		}
		if told != times {
			t.Errorf("told of %d, want %d", told, times)
		}
		if took := time.Since(start); took < 500*time.Millisecond || took > 2*time.Second {
			t.Errorf("%d repetitions took %v", times, took)
		}
	})
}

// TestRepeatedWithinContext: a call that is rolled back again and again ends with its context.
func TestRepeatedWithinContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{answer: func(int, int, string) ([]row, error) { return nil, errRolledBack }}
		e := open(t, d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := claim(1)
		start := time.Now()
		if err := e.Leave(ctx, &c); err == nil {
			t.Error("a call that was always rolled back has succeeded")
		}
		if took := time.Since(start); took != time.Second || d.calls < 10 {
			t.Errorf("%d calls in %v", d.calls, took)
		}
	})
}

// TestOtherErrorsAreNotRepeated: their outcome is not known.
func TestOtherErrorsAreNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{answer: func(int, int, string) ([]row, error) { return nil, errOther }}
		e := open(t, d)
		c := claim(1)
		if _, err := e.Join(t.Context(), &c); !errors.Is(err, errOther) || d.calls != 1 {
			t.Errorf("%v after %d calls", err, d.calls)
		}
	})
}

// TestDemotedServerIsLeft: a call that a demoted server refuses is repeated over another connection, and those that are
// idle are closed, since they lead to the same server.
func TestDemotedServerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, owned := range []bool{true, false} {
			const old = 5 // connections to the server that is demoted
			d := &database{answer: func(_, conn int, _ string) ([]row, error) {
				if conn <= old {
					return nil, errDemoted
				}
				return []row{answerFor(0, "held")}, nil
			}}
			e := open(t, d)
			if owned {
				e.MaxIdle = old
			}
			fill(t, e, old)
			c := claim(1)
			if answer, err := e.Join(t.Context(), &c); err != nil || answer.State != store.Held {
				t.Errorf("%+v, %v", answer, err)
			}
			if d.conns != old+1 || len(d.closed) != old {
				t.Errorf("%d connections were made, and %v closed", d.conns, d.closed)
			}
		}
	})
}

// TestSilentConnectionsAreLeft: a call that had no answer until its end does not wait any longer, and all idle
// connections are closed soon.
func TestSilentConnectionsAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, owned := range []bool{true, false} {
			const idle = 16
			d := &database{answer: func(int, int, string) ([]row, error) { return []row{answerFor(0, "held")}, nil }}
			e := open(t, d)
			if owned {
				e.MaxIdle = idle
			}
			fill(t, e, idle)
			d.silent.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			c := claim(1)
			start := time.Now()
			_, err := e.Join(ctx, &c)
			cancel()
			if err == nil {
				t.Error("it was answered")
			}
			if took := time.Since(start); took != time.Second {
				t.Errorf("it took %v", took)
			}
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			d.mu.Lock()
			closed := len(d.closed)
			d.mu.Unlock()
			if closed != idle {
				t.Errorf("owned %v: %d of %d are closed", owned, closed, idle)
			}
		}
	})
}

// TestStuckConnectionIsClosed: a connection that was left in a transaction does not go back to the program's pool.
func TestStuckConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{answer: func(int, int, string) ([]row, error) { return nil, errStuck }}
		e := open(t, d)
		fill(t, e, 3)
		c := claim(1)
		if _, err := e.Join(t.Context(), &c); !errors.Is(err, errStuck) || d.calls != 1 {
			t.Errorf("%v after %d calls", err, d.calls)
		}
		if len(d.closed) != 1 || e.DB.Stats().Idle != 2 {
			t.Errorf("%v are closed, and %d idle", d.closed, e.DB.Stats().Idle)
		}
	})
}

// TestPerhapsSent: a driver that may have sent what it calls a bad connection is not asked again.
func TestPerhapsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{answer: func(int, int, string) ([]row, error) { return nil, driver.ErrBadConn }}
		e := open(t, d)
		e.Unsent = false
		c := claim(1)
		if _, err := e.Join(t.Context(), &c); !errors.Is(err, driver.ErrBadConn) || d.calls != 1 {
			t.Errorf("%v after %d calls", err, d.calls)
		}
	})
}

// TestClosedEnginePreparesNothing: a call that comes after Close is refused.
func TestClosedEnginePreparesNothing(t *testing.T) {
	e := open(t, &database{})
	e.Prepare = true
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	c := claim(1)
	if _, err := e.Join(t.Context(), &c); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}

// TestUselessConnectionsAreBounded: a call fails if one connection after the other turns out to be useless.
func TestUselessConnectionsAreBounded(t *testing.T) {
	for _, useless := range []error{driver.ErrBadConn, errDemoted} {
		synctest.Test(t, func(t *testing.T) {
			d := &database{answer: func(int, int, string) ([]row, error) { return nil, useless }}
			e := open(t, d)
			c := claim(1)
			if _, err := e.Join(t.Context(), &c); !errors.Is(err, useless) {
				t.Errorf("%v, want %v", err, useless)
			}
			if d.calls < 2 || d.calls > 9 { // package database/sql repeats too
				t.Errorf("%v: %d calls", useless, d.calls)
			}
		})
	}
}

// TestWrongAnswers: a database that answers for other claims than it was asked about is not believed. A claim without
// an answer is not gone.
func TestWrongAnswers(t *testing.T) {
	for name, answers := range map[string][]row{
		"none":             {},
		"too few":          {answerFor(0, "held")},
		"too many":         {answerFor(0, "held"), answerFor(1, "held"), answerFor(1, "held")},
		"one twice":        {answerFor(0, "held"), answerFor(0, "held")},
		"another":          {answerFor(0, "held"), answerFor(2, "held")},
		"none such":        {answerFor(0, "held"), answerFor(-1, "held")},
		"unknown problem":  {answerFor(0, "held"), {int64(1), "", int64(0), int64(0), int64(0), "moon", ""}},
		"unreadable place": {answerFor(0, "held"), {int64(1), "", int64(0), int64(0), int64(0), "", "{"}},
		"unknown state":    {answerFor(0, "held"), answerFor(1, "moon")},
		"all, and one":     {answerFor(-1, "held"), answerFor(1, "held")},
		"one, and all":     {answerFor(1, "held"), answerFor(-1, "held")},
		"all wait":         {answerFor(-1, "waiting")},
		"all gone":         {answerFor(-1, "")},
		"all, and not":     {{int64(-1), "held", int64(0), int64(0), int64(0), "format", ""}},
	} {
		for _, grouped := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				e := open(t, &database{answer: func(int, int, string) ([]row, error) { return answers, nil }})
				e.Grouped = grouped
				known := []store.Claim{claim(1), claim(2)}
				known[0].Ticket, known[1].Ticket = 5, 6
				if got, err := e.Keep(t.Context(), known); err == nil {
					t.Errorf("%s: %+v", name, got)
				}
			})
		}
	}
}

// TestAllHeld: one result says that all claims are held. It is believed where the database may say so, of claims whose
// tickets are known.
func TestAllHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, &database{answer: func(int, int, string) ([]row, error) {
			return []row{answerFor(-1, "held")}, nil
		}})
		cs := []store.Claim{claim(1), claim(2)}
		cs[0].Ticket, cs[1].Ticket = 5, 6
		if got, err := e.Keep(t.Context(), cs); err == nil {
			t.Errorf("claims that are not grouped: %+v", got)
		}
		e.Grouped = true
		got, err := e.Keep(t.Context(), cs)
		for i := range cs {
			if err != nil || got[i].State != store.Held || got[i].Ticket != cs[i].Ticket || got[i].Err != nil {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		cs[1].Ticket = 0
		if got, err := e.Keep(t.Context(), cs); err == nil {
			t.Errorf("a ticket is not known: %+v", got)
		}
	})
}

// TestAnswersInAnyOrder: the rows of a database have no order.
func TestAnswersInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := open(t, &database{answer: func(int, int, string) ([]row, error) {
			return []row{
				answerFor(1, "waiting"),
				answerFor(0, "held"),
				{int64(2), "", int64(0), int64(-1), int64(0), "format", ""},
			}, nil
		}})
		got, err := e.Keep(t.Context(), []store.Claim{claim(1), claim(2), claim(3)})
		if err != nil || got[0].State != store.Held || got[1].State != store.Waiting ||
			!errors.Is(got[2].Err, store.ErrFormat) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestLookTends: a line that has something to be done is tidied, once for all claims in it, and looked at again.
func TestLookTends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var texts []string
		e := open(t, &database{answer: func(_, _ int, text string) ([]row, error) {
			texts = append(texts, text)
			switch {
			case text == "tend":
				return []row{answerFor(0, "")}, nil
			case len(texts) == 1:
				untidy := row{int64(0), "waiting", int64(5), int64(-1), int64(0), "untidy", ""}
				return []row{untidy, append(row{int64(1)}, untidy[1:]...)}, nil
			}
			return []row{answerFor(0, "held"), answerFor(1, "waiting")}, nil
		}})
		got, err := e.Poll(t.Context(), []store.Claim{claim(1), claim(2)})
		if err != nil || got[0].State != store.Held || got[1].State != store.Waiting {
			t.Errorf("%+v, %v", got, err)
		}
		if calls := strings.Join(texts, " "); calls != "look tend look" {
			t.Errorf("called %s", calls)
		}
	})
}

// TestFailedTend: that one line cannot be tidied keeps nothing from the claims in others, and no line from being swept.
func TestFailedTend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tends, looks := 0, 0
		e := open(t, &database{answer: func(_, _ int, text string) ([]row, error) {
			switch text {
			case "tend":
				if tends++; tends%2 == 1 {
					return nil, errOther
				}
				return []row{answerFor(0, "")}, nil
			case "expired":
				return []row{{int64(1), "", "x"}, {int64(2), "", "y"}}, nil
			}
			if looks++; looks > 1 {
				return nil, errOther
			}
			return []row{{int64(0), "waiting", int64(5), int64(-1), int64(0), "untidy", ""}, answerFor(1, "held")}, nil
		}})
		got, err := e.Poll(t.Context(), []store.Claim{claim(1), claim(2)})
		if err != nil || got[0].State != store.Waiting || got[1].State != store.Held || looks != 2 {
			t.Errorf("%+v, %v after %d looks", got, err, looks)
		}
		tends = 0
		if err := e.Sweep(t.Context()); !errors.Is(err, errOther) || tends != 2 {
			t.Errorf("%v after %d lines", err, tends)
		}
	})
}

// TestHidePassword: the latest passwords are hidden, and not all that there ever were.
func TestHidePassword(t *testing.T) {
	e := open(t, &database{})
	for n := range 1000 {
		e.HidePassword(fmt.Sprint("secret", n, "."))
		e.HidePassword("constant")
	}
	if got := e.Frame.MaskText("secret999. constant secret0."); got != "xxxxx xxxxx secret0." {
		t.Error(got)
	}
}
