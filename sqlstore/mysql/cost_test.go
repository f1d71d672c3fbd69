package mysql_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/mysql"
	"github.com/holdfast-go/holdfast/store"
)

// A session is a store over one connection, whose counters the server keeps.
type session struct {
	testing.TB
	db    *sql.DB
	store store.Store
}

func newSession(t testing.TB, h *harness) *session {
	t.Helper()
	db := h.pool(t, "")
	s, err := mysql.Own(t.Context(), db)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Check(t, s.Close()) })
	return &session{TB: t, db: db, store: s}
}

// counters returns how many requests the connection has made, and how many rows they have read. To ask is a request.
func (s *session) counters() (requests, rows int) {
	s.Helper()
	found, err := s.db.QueryContext(s.Context(), "SHOW SESSION STATUS")
	testkit.Must(s, err)
	defer found.Close()
	for found.Next() {
		var name, value string
		var n int
		testkit.Must(s, found.Scan(&name, &value))
		_, _ = fmt.Sscan(value, &n)
		switch {
		case name == "Questions" || name == "Com_stmt_prepare":
			requests += n
		case strings.HasPrefix(name, "Handler_read"):
			rows += n
		}
	}
	testkit.Must(s, found.Err())
	return requests, rows
}

// during returns what the counters have counted while do ran.
func (s *session) during(do func()) (requests, rows int) {
	s.Helper()
	noRequests, noRows := s.counters()
	baseRequests, baseRows := s.counters()
	do()
	requests, rows = s.counters()
	return requests - baseRequests - (baseRequests - noRequests), rows - baseRows - (baseRows - noRows)
}

// TestCost: every call is one request, and reads no more rows for all the claims of others. There are 100,000 of them.
func TestCost(t *testing.T) {
	t.Parallel()
	const others = 100_000
	h := newHarness(t)
	s := newSession(t, h)
	h.exec(
		t,
		fmt.Sprintf(`INSERT INTO holdfast_claims (prefix, name, seat, slot, ticket, id, state, kind, units, capacity,
		deadline, ttl, grace, since, turn, inbox, waits, details, format)
		SELECT '', CONCAT('other-', seq), 0, seq MOD 256, seq, HEX(seq), 'held', 'lock', 1048576, 1048576,
		9000000000000000, 9000000000000000, 0, 0, 0, '', '', '{}', 1 FROM seq_1_to_%d`, others),
		"ANALYZE TABLE holdfast_claims",
	)
	const batch = 100
	var kept []store.Claim
	for i := range batch {
		kept = append(kept, testkit.Held(t, s.store, claim(fmt.Sprintf("kept-%d", i))))
	}
	other := h.open(t)
	testkit.Held(t, other, claim("taken"))
	for _, round := range []string{"the first time", "again"} {
		alone, hasty, followed, waiter := claim("alone"), claim("taken"), claim("followed"), claim("followed")
		hasty.Try = true
		for _, c := range []struct {
			name string
			rows int // at most
			do   func()
		}{
			{"Join", 10, func() { testkit.Join(t, s.store, &alone, store.Held) }},
			{"Leave", 10, func() { testkit.Leave(t, s.store, alone) }},
			{"Try", 20, func() { testkit.Join(t, s.store, &hasty, store.Gone) }},
			{"Keep of one", 60, func() { testkit.Keep(t, s.store, kept[0], store.Held) }},
			{"Keep of 100", 40 * batch, func() { s.keep(kept) }},
			{"Detach", 40, func() { testkit.Detach(t, s.store, kept[1], store.ID{1}) }},
			{"Attach", 40, func() { testkit.Attach(t, s.store, kept[1], store.ID{1}) }},
			{"Join before another", 10, func() { testkit.Join(t, s.store, &followed, store.Held) }},
			{"Leave before another", 40, func() {
				testkit.Join(t, other, &waiter, store.Waiting)
				testkit.Leave(t, s.store, followed)
				testkit.Leave(t, other, waiter)
			}},
		} {
			requests, rows := s.during(c.do)
			t.Logf("%s, %s: %d requests, %d rows", c.name, round, requests, rows)
			if rows > c.rows {
				t.Errorf("%s reads %d rows, want %d at most", c.name, rows, c.rows)
			}
			if round == "again" && requests != 1 {
				t.Errorf("%s makes %d requests", c.name, requests)
			}
		}
	}
}

// keep keeps claims that are held.
func (s *session) keep(cs []store.Claim) {
	s.Helper()
	statuses, err := s.store.Keep(s.Context(), cs)
	testkit.Must(s, err)
	for _, status := range statuses {
		if status.State != store.Held {
			s.Errorf("it is %v", status.State)
		}
	}
}

// TestLookCost: while claims wait, one read for all of them is made now and then, and it reads only them.
func TestLookCost(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := newSession(t, h)
	holder := h.open(t)
	var waiting []store.Claim
	for i := range 50 {
		name := fmt.Sprintf("waits-%d", i)
		testkit.Held(t, holder, claim(name))
		c := claim(name)
		testkit.Join(t, s.store, &c, store.Waiting)
		waiting = append(waiting, c)
	}
	time.Sleep(time.Second) // for the looks to become rare
	began := time.Now()
	requests, rows := s.during(func() { time.Sleep(2 * time.Second) })
	while := time.Since(began)
	t.Logf("%d requests and %d rows in %v", requests, rows, while)
	if most := int(while/(100*time.Millisecond)) + 2; requests < 1 || requests > most {
		t.Errorf("%d looks, want 1 to %d", requests, most)
	}
	if most := requests * len(waiting) * 12; rows > most {
		t.Errorf("they have read %d rows, want %d at most", rows, most)
	}
}
