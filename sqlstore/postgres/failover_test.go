package postgres_test

import (
	"context"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// failOver kills a primary and promotes its standby.
func failOver(t *testing.T, primary, standby *servers.PostgresServer) {
	t.Helper()
	testkit.Must(t, primary.Kill())
	testkit.Must(t, standby.Promote())
}

// both is the URL of a primary and its standby.
func both(primary, standby *servers.PostgresServer) string {
	return "postgres://postgres@" + primary.Addr() + "," + standby.Addr() + "/postgres?sslmode=disable"
}

// TestFailoverLosesGrant: the standby has not received the newest grant when it is promoted, and grants the lock again.
// There are two who believe to hold it. The second has the greater token, since tickets follow the clock, so that a
// fence refuses the first. The first learns from its next Keep that its claim is gone.
func TestFailoverLosesGrant(t *testing.T) {
	t.Parallel()
	primary := servers.Postgres(t)
	standby := primary.Standby(t)
	a := testkit.Open(t, both(primary, standby))
	b := testkit.Open(t, both(primary, standby))
	testkit.Leave(t, a, testkit.Held(t, a, testkit.Claim("x", time.Minute)))
	testkit.Must(t, standby.AwaitCaughtUp())
	testkit.Must(t, standby.StopReplication())

	first := testkit.Claim("x", 5*time.Minute)
	believed := testkit.Join(t, a, &first, store.Held)
	testkit.Waiting(t, b, testkit.Claim("x", time.Minute))
	failOver(t, primary, standby)
	second := testkit.Claim("x", 5*time.Minute)
	testkit.Await(t, "the new primary answers", func() bool {
		status, err := b.Join(t.Context(), second)
		second.Ticket = status.Ticket
		return err == nil && status.State == store.Held
	})
	if time.Until(believed.Until) <= 0 {
		t.Error("the first holder does not believe any more")
	}
	if second.Ticket <= first.Ticket {
		t.Errorf("ticket %d was given out after %d", second.Ticket, first.Ticket)
	}
	var gate fence.Gate
	token := func(c store.Claim) holdfast.Token { return holdfast.Token(c.Ticket) << 8 } // of an exclusive lease
	testkit.Check(t, gate.Enter(token(first)))
	testkit.Check(t, gate.Enter(token(second)))
	if err := gate.Enter(token(first)); err == nil {
		t.Error("the fence lets the late writer in")
	}
	awaitState(t, a, first, store.Gone)
	testkit.Keep(t, b, second, store.Held)
}

// awaitState keeps a claim until the store answers, and demands a state.
func awaitState(t *testing.T, s store.Store, c store.Claim, want store.State) {
	t.Helper()
	testkit.Await(t, "the store answers", func() bool {
		statuses, err := s.Keep(t.Context(), []store.Claim{c})
		if err == nil && (statuses[0].Err != nil || statuses[0].State != want) {
			t.Fatalf("%+v, want %v", statuses[0], want)
		}
		return err == nil
	})
}

// TestFailoverSynchronous: with a synchronous standby nothing that was acknowledged is lost. The holder still holds,
// and the waiter has its place.
func TestFailoverSynchronous(t *testing.T) {
	t.Parallel()
	primary := servers.Postgres(t)
	standby := primary.Standby(t)
	testkit.Must(t, primary.Synchronous(1))
	a := testkit.Open(t, both(primary, standby))
	b := testkit.Open(t, both(primary, standby))
	first := testkit.Held(t, a, testkit.Claim("x", 5*time.Minute))
	second := testkit.Waiting(t, b, testkit.Claim("x", 5*time.Minute))
	failOver(t, primary, standby)
	awaitState(t, a, first, store.Held)
	awaitState(t, b, second, store.Waiting)
	testkit.Leave(t, a, first)
	testkit.AwaitHeld(t, b, second)
}

// TestRestoredBackup: an old dump of the tables takes the place of newer ones. Tickets rise all the same: they follow
// the clock, and if that was set back too, the floor of a client that has seen greater ones.
func TestRestoredBackup(t *testing.T) {
	t.Parallel()
	dump := servers.Need(t, "pg_dump")
	clock := servers.NewClock(t)
	server := servers.Postgres(t, servers.Env(clock.Env()...))
	db := server.DB(t)
	url := server.URL("postgres", "", "postgres")
	s := testkit.Open(t, url)
	draw := func(floor uint64) uint64 {
		t.Helper()
		c := testkit.Claim("x", time.Minute)
		c.Floor = floor
		c = testkit.Held(t, s, c)
		testkit.Leave(t, s, c)
		return c.Ticket
	}
	old := draw(0)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	saved, err := exec.CommandContext(ctx, dump, "--inserts", "--schema", "holdfast", url).Output()
	testkit.Must(t, err)
	saved = regexp.MustCompile(`(?m)^\\.*$`).ReplaceAll(saved, nil) // commands of psql
	restore := func() {
		t.Helper()
		statement(t, db, "DROP SCHEMA holdfast CASCADE")
		statement(t, db, string(saved))
		statement(t, db, "DISCARD ALL") // the dump sets search_path
	}
	clock.Step(time.Hour)
	newest := draw(0)
	restore()
	if next := draw(0); next <= newest {
		t.Errorf("after the dump was restored: ticket %d after %d", next, newest)
	} else {
		newest = next
	}
	restore()
	clock.Step(-2 * time.Hour)
	if next := draw(newest); next <= newest {
		t.Errorf("after the dump was restored and the clock set back: ticket %d after %d", next, newest)
	}
	restore()
	if next := draw(0); next <= old || next >= newest {
		t.Errorf("without a floor: ticket %d, want one between %d, which the dump has, and %d", next, old, newest)
	}
}
