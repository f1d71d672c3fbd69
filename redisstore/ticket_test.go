package redisstore_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
)

// draw takes a lock and releases it, and returns its ticket.
func draw(t *testing.T, s *redisstore.Store) uint64 {
	t.Helper()
	c := testkit.Held(t, s, claim("draw"))
	testkit.Leave(t, s, c)
	return c.Ticket
}

// Tickets rise through everything that may happen to a server, each alone. A fresh client has no floor: the server
// must know by itself.
func TestTicketsRise(t *testing.T) {
	t.Parallel()
	clock := servers.NewClock(t)
	server, s := newServer(t, "", servers.Env(clock.Env()...))
	restart := func(keepData bool) func() {
		return func() {
			testkit.Must(t, server.Restart(keepData))
			reach(t, s)
		}
	}
	last := draw(t, s)
	forget := func() { // as a server does that had not saved its last steps
		do(t, server, "SET", "holdfast:{}:mark", strconv.FormatUint(last-1000, 10))
		restart(true)()
	}
	for _, event := range []struct {
		name string
		do   func()
	}{
		{"nothing", func() {}},
		{"FLUSHALL", func() { do(t, server, "FLUSHALL") }},
		{"a restart with data", restart(true)},
		{"another restart with data", restart(true)},
		{"a restart with older data", forget},
		{"a restart without data", restart(false)},
		{"another restart without data", restart(false)},
		{"an hour back", func() { clock.Step(-time.Hour) }},
		{"a restart with data, by the same clock", restart(true)},
		{"two hours forward", func() { clock.Step(2 * time.Hour) }},
		{"FLUSHALL, by the same clock", func() { do(t, server, "FLUSHALL") }},
		{"two hours forward again", func() { clock.Step(2 * time.Hour) }},
		{"30 seconds back, and a restart without data", func() {
			clock.Step(-30 * time.Second)
			restart(false)()
		}},
	} {
		event.do()
		for range 3 {
			ticket := draw(t, s)
			if ticket <= last {
				t.Errorf("after %s the ticket is %d, and before it was %d", event.name, ticket, last)
			}
			last = ticket
		}
	}
}

// The jump is a minute ahead of the clock, however often it is made: a loss of data after it must not fall behind.
func TestJumpsDoNotAddUp(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	for range 3 {
		testkit.Must(t, server.Restart(true))
		reach(t, s)
		ahead := time.Until(time.UnixMicro(int64(draw(t, s))))
		if ahead < 50*time.Second || ahead > 70*time.Second {
			t.Errorf("after a restart the tickets are %v ahead of the clock, want a minute", ahead)
		}
	}
}

// The mark is lost and the queue is not, and the queue is ahead of all clocks. A newcomer must not come to stand before
// those who hold.
func TestMarkIsLost(t *testing.T) {
	server, s := newServer(t, "")
	for _, solo := range []bool{true, false} {
		name := "lost" + strconv.FormatBool(solo)
		holder, waiter, next := claim(name), claim(name), claim(name)
		holder.Floor = uint64(time.Now().Add(time.Hour).UnixMicro())
		testkit.Join(t, s, &holder, store.Held)
		if !solo {
			testkit.Join(t, s, &waiter, store.Waiting)
		}
		do(t, server, "DEL", "holdfast:{}:mark")
		testkit.Join(t, s, &next, store.Waiting)
		if next.Ticket <= holder.Ticket || next.Ticket <= waiter.Ticket {
			t.Errorf("the holder has ticket %d, the waiter %d, the newcomer %d", holder.Ticket, waiter.Ticket,
				next.Ticket)
		}
		testkit.Keep(t, s, holder, store.Held)
	}
}

// What a client has seen, it never falls below, also where its floor is ahead of the clock by a day and of the mark
// not.
func TestFloors(t *testing.T) {
	server, s := newServer(t, "")
	far := uint64(time.Now().Add(3 * store.FloorAhead).UnixMicro())
	c := claim("far")
	c.Floor = far
	if _, err := s.Join(t.Context(), c); !errors.Is(err, store.ErrFloor) {
		t.Errorf("a floor of three days ahead: %v, want %v", err, store.ErrFloor)
	}
	if next := draw(t, s); next >= far {
		t.Errorf("ticket %d was given after a floor of %d was refused", next, far)
	}
	do(t, server, "SET", "holdfast:{}:mark", strconv.FormatUint(far, 10))
	testkit.Join(t, s, &c, store.Held) // the server has come that far itself
	if c.Ticket <= far {
		t.Errorf("ticket %d for a floor of %d", c.Ticket, far)
	}
	exhausted := claim("exhausted")
	do(t, server, "SET", "holdfast:{}:mark", "9007199254740990")
	if _, err := s.Join(t.Context(), exhausted); !errors.Is(err, store.ErrFloor) {
		t.Errorf("where tickets end: %v, want %v", err, store.ErrFloor)
	}
}

// Somebody has set the mark to where no clock has ever been. No ticket is given from there, and the error says what to
// do. The mark is not lowered, who holds is renewed, also over a new connection, and without the mark tickets go on
// rising.
func TestMarkSetByHand(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "mode=plain"} {
		for _, mark := range []string{"5000000000000000", "9007199254740990", "9223372036854775807"} {
			t.Run(query+mark, func(t *testing.T) {
				server := servers.Redis(t)
				url := "redis://" + server.Addr() + "?" + query
				s := testkit.Open(t, url)
				holder := testkit.Held(t, s, claim("held"))
				do(t, server, "SET", redisstore.Mark(""), mark)
				another := testkit.Open(t, url)
				for _, s := range []store.Store{s, another} {
					standing, err := s.Join(t.Context(), claim("refused"))
					if err == nil || !store.Final(err) || !strings.Contains(err.Error(), redisstore.Mark("")) ||
						!strings.Contains(err.Error(), "by hand") {
						t.Fatalf("%+v, %v", standing, err)
					}
				}
				testkit.Keep(t, s, holder, store.Held)
				now, err := strconv.ParseUint(do(t, server, "GET", redisstore.Mark("")), 10, 64)
				if was, _ := strconv.ParseUint(mark, 10, 64); err != nil || now < was {
					t.Errorf("the mark was %s and is %d, %v", mark, now, err)
				}
				if n := do(t, server, "EXISTS", redisstore.KeysOf("", "refused")[0], "refused"); n != "0" {
					t.Errorf("%s keys were left", n)
				}
				do(t, server, "DEL", redisstore.Mark(""))
				next := claim("next")
				if testkit.Join(t, another, &next, store.Held); next.Ticket <= holder.Ticket {
					t.Errorf("ticket %d after %d", next.Ticket, holder.Ticket)
				}
			})
		}
	}
}
