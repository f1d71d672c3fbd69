package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lab/check"
)

// TestRestartWithoutData is the schedule behind TestFaults' cells of that name, with nothing left to chance: the holder
// is cut off while the server loses all, and another comes. The checkers see the two hold at once, and with a startup
// delay they do not.
func TestRestartWithoutData(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, query string }{
		{"no startup delay", "?ttl=30s"},
		{"startup delay", "?ttl=5s&startup-delay=5s"}, // longer than a restart on a busy machine
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, servers.Redis(t, inMemory))
			way := testkit.Proxy(t, w.server.Addr())
			holder := w.open(way.Addr(), test.query)
			next := w.open(w.server.Addr(), test.query)
			first := w.Take(holder)
			mend := way.Cut()
			testkit.Must(t, errors.Join(w.server.Kill(), w.server.LoseData(), w.server.Start()))
			if !first.Believed() {
				t.Fatal("the restart took longer than the lease")
			}
			second := w.Take(next)
			if test.name == "startup delay" {
				w.MustExclude(first, second)
				return
			}
			w.mustOverlap(first, second)
			mend()
			w.mustLose(first)
		})
	}
}

// witnessed is the lock that a witness watches.
const witnessed = "witnessed"

// A witness is a journal of one lock on a server.
type witness struct {
	*testkit.Journal
	server *servers.RedisServer
}

func newWitness(t *testing.T, server *servers.RedisServer) *witness {
	t.Helper()
	j := testkit.NewJournal(t, testkit.Evidence(t), witnessed)
	j.Retry = true // on a busy machine a replica acknowledges late
	return &witness{j, server}
}

func (w *witness) open(addr, query string) *holdfast.Client {
	w.Helper()
	return w.Open("redis://" + addr + query)
}

// mustOverlap demands that these are believed at once, that the checkers see it, and that the later has the greater
// token: a fence refuses the earlier.
func (w *witness) mustOverlap(first, second *testkit.Hold) {
	w.Helper()
	overlaps, tokens := w.Findings(second, first)
	if len(overlaps) != 1 || overlaps[0].Rule != check.Exclusion {
		w.Errorf("two hold at once, and what is found is %v", overlaps)
	}
	if len(tokens) != 0 || second.Token() <= first.Token() {
		w.Errorf("the tokens do not rise: %v", tokens)
	}
}

// mustLose demands that a lease is lost at its next renewal, and not because its time expires.
func (w *witness) mustLose(held *testkit.Hold) {
	w.Helper()
	w.MustLose(held, time.Until(held.Until()), "the store no longer has it")
}
