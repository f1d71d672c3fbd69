package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Plain mode and other libraries on one key: processes of both take turns, and never hold at once.

func init() {
	contestants = append(contestants,
		contestant{name: "test-plain", role: ours, on: redisSite, open: openPlain("")},
		contestant{
			name: "test-plain-rueidislock",
			role: ours,
			on:   redisSite,
			open: openPlain("&prefix=rueidislock:0:"),
		},
	)
}

// openPlain is Holdfast in plain mode with further parameters, each turn by way of the server. It looks often for what
// the others release, so that both sides have their turns.
func openPlain(parameters string) func(context.Context, string, time.Duration) (locker, error) {
	return func(ctx context.Context, where string, ttl time.Duration) (locker, error) {
		url := "redis://" + where + "?mode=plain&retry=2ms" + parameters
		client, err := holdfast.Open(ctx, url, holdfast.WithTTL(ttl), strict)
		if err != nil {
			return nil, err
		}
		return holdfastLocker{client}, nil
	}
}

// interopFor is how long each pair contends: HOLDFAST_INTEROP=1m makes it a minute.
func interopFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("HOLDFAST_INTEROP")
	if text == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("HOLDFAST_INTEROP: %v", err)
	}
	return d
}

// A side is a kind of lock, and how a worker that uses it is hired.
type side struct {
	name string
	hire func(context.Context, assignment) (*hand, error)
}

// sideOf is a contestant's.
func sideOf(contestant string) side { return side{contestant, hire} }

// An encounter is what came of processes that contended for one name.
type encounter struct {
	tallies []tally
	sides   []side // of each process
	start   int64
}

// meet lets processes contend for one name on fresh servers, each with its own kind of lock. Each pauses between two
// turns.
func meet(t *testing.T, kind *siteKind, lasts, pause time.Duration, sides ...side) encounter {
	t.Helper()
	// A node of several may take a twentieth of the ttl to answer.
	w := &workload{
		Name:       "interop",
		Goroutines: 3,
		Names:      1,
		Work:       time.Millisecond,
		Pause:      pause,
		Lasts:      lasts,
		TTL:        time.Minute,
	}
	ctx, cancel := context.WithTimeout(t.Context(), w.limit())
	defer cancel()
	on, err := kind.start(ctx, serverSettings{})
	must(t, err)
	t.Cleanup(func() { on.Close() })
	where, err := on.Fresh(ctx)
	must(t, err)
	hands, err := hireAll(len(sides), func(p int) (*hand, error) {
		return sides[p].hire(ctx, assignment{Contestant: sides[p].name, Where: where, Process: p, Workload: *w})
	})
	defer dismissAll(hands)
	must(t, err)
	start, err := beginAll(hands)
	must(t, err)
	tallies, _, err := hearAll(hands)
	must(t, err)
	return encounter{tallies, sides, start}
}

// turns are those of all, in order.
func (e encounter) turns() []turn {
	all := histories(e.tallies)
	if len(all) != 1 {
		return nil
	}
	return all[0]
}

// passed counts how often the lock went from one kind to another.
func (e encounter) passed() map[string]int {
	n := map[string]int{}
	turns := e.turns()
	for i := 1; i < len(turns); i++ {
		n[e.sides[turns[i-1].process].name+" to "+e.sides[turns[i].process].name]++
	}
	return n
}

// served counts the turns of each kind.
func (e encounter) served() map[string]int {
	n := map[string]int{}
	for _, turn := range e.turns() {
		n[e.sides[turn.process].name]++
	}
	return n
}

// faults is how many calls failed, and why the first did.
func (e encounter) faults() (n int, first string) {
	for _, t := range e.tallies {
		if n += t.Errors; first == "" {
			first = t.FirstError
		}
	}
	return n, first
}

func TestPlainModeAmongOthers(t *testing.T) {
	for _, peer := range []string{"redsync-eager", "redislock-eager"} {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			testPlainModeBeside(t, sideOf(peer))
		})
	}
}

func testPlainModeBeside(t *testing.T, peer side) {
	takeTurns(t, redisSite, time.Millisecond, sideOf("test-plain"), peer)
}

// TestPlainModeAmongRueidislock: rueidislock with a majority of one has one key for each name, PREFIX:0:NAME, which
// plain mode shares. The control is plain mode without that prefix.
func TestPlainModeAmongRueidislock(t *testing.T) {
	t.Parallel()
	peer := sideOf("rueidislock")
	takeTurns(t, redisSite, time.Millisecond, sideOf("test-plain-rueidislock"), peer)
	t.Run("control", func(t *testing.T) { testBlind(t, redisSite, sideOf("test-plain"), peer) })
}

// Redlock and redsync on the same five masters. Nobody tells Holdfast what redsync gives back, so the lock is left free
// for most of the time.
func TestRedlockAmongOthers(t *testing.T) {
	t.Parallel()
	ours, peer := sideOf("holdfast-redlock"), sideOf("redsync-redlock-eager")
	takeTurns(t, mastersSite, 80*time.Millisecond, ours, peer)
	t.Run("control", func(t *testing.T) { testBlind(t, mastersSite, sideOf("holdfast-master"), peer) })
}

// takeTurns demands that two sides exclude each other. On a busy machine the lock may go from one to the other too
// seldom to show that. Then they meet again, for longer.
func takeTurns(t *testing.T, kind *siteKind, pause time.Duration, ours, peer side) {
	t.Helper()
	for lasts := interopFor(t); ; lasts *= 2 {
		e := meet(t, kind, lasts, pause, ours, peer, ours, peer)
		excludes(t, e)
		passed := e.passed()
		there, back := passed[ours.name+" to "+peer.name], passed[peer.name+" to "+ours.name]
		t.Logf("%d holds in %v: %s", len(e.turns()), lasts, strings.TrimPrefix(fmt.Sprint(passed), "map"))
		if t.Failed() || min(there, back) >= 5 {
			return
		}
		if lasts > 15*time.Second {
			t.Errorf("the lock went from %s to %s %d times, and back %d times: that shows little", ours.name, peer.name,
				there, back)
			return
		}
	}
}

// excludes demands that nothing was held twice at once, and that nothing failed.
func excludes(t *testing.T, e encounter) {
	t.Helper()
	turns := e.turns()
	if n := overlaps(turns); n > 0 {
		t.Errorf("%d of %d holds overlapped with another", n, len(turns))
	}
	if n := disorder(turns); n > 0 {
		t.Errorf("%d tokens of Holdfast's did not rise", n)
	}
	if n, first := e.faults(); n > 0 {
		t.Errorf("%d calls failed: %s", n, first)
	}
}

// The control: a line of the same name is another lock, and the check above sees that.
func TestLineAndOthersDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	testLineBeside(t, sideOf("redsync-eager"))
}

func testLineBeside(t *testing.T, peer side) { testBlind(t, redisSite, sideOf("holdfast"), peer) }

// testBlind demands that the checks see two sides that do not see each other.
func testBlind(t *testing.T, kind *siteKind, ours, peer side) {
	t.Helper()
	e := meet(t, kind, 2*time.Second, time.Millisecond, ours, peer)
	if n, first := e.faults(); n > 0 {
		t.Errorf("%d calls failed: %s", n, first)
	}
	if turns := e.turns(); overlaps(turns) == 0 {
		t.Errorf("of %d holds with two locks of one name none overlapped: the check sees nothing", len(turns))
	}
}
