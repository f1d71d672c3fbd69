package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/store"
)

// TestRestartWithoutData is the schedule behind TestFaults' cells of that name, with nothing left to chance: the holder
// is cut off while the server loses all, and another comes. The checkers see the two hold at once, and with a guard they
// do not.
func TestRestartWithoutData(t *testing.T) {
	for _, test := range []struct{ name, query string }{
		{"no guard", "?ttl=30s"},
		{"guard", "?ttl=5s&guard=5s"}, // longer than a restart on a busy machine
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, inMemory)
			way := w.way()
			holder := w.open(way.Addr(), test.query)
			next := w.open(w.server.Addr(), test.query)
			first := w.take(holder)
			mend := way.Cut()
			if err := errors.Join(w.server.Kill(), w.server.LoseData(), w.server.Start()); err != nil {
				t.Fatal(err)
			}
			if !first.belief.Check() {
				t.Fatal("the restart took longer than the lease")
			}
			second := w.take(next)
			if test.name == "guard" {
				w.mustExclude(first, second)
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

// A witness writes down who believes to hold a lock, as the crowd does.
type witness struct {
	*testing.T
	server   *servers.RedisServer
	dir      string
	recorder *history.Recorder
	clients  map[*holdfast.Client]string // by name
}

// A testimony is a lease, and what was written down of it.
type testimony struct {
	lease  *holdfast.Lease
	belief *history.Belief
}

func newWitness(t *testing.T, options ...servers.Option) *witness {
	t.Helper()
	w := &witness{T: t, server: servers.Redis(t, options...), dir: evidence(t), clients: map[*holdfast.Client]string{}}
	var err error
	if w.recorder, err = history.Create(w.dir, t.Name()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.recorder.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// way is a way to the server that can be cut.
func (w *witness) way() *proxy.Proxy {
	w.Helper()
	p, err := proxy.Start("tcp", w.server.Addr())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { p.Close() })
	return p
}

func (w *witness) open(addr, query string) *holdfast.Client {
	w.Helper()
	locks, err := holdfast.Open(w.Context(), "redis://"+addr+query)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { locks.Close() })
	w.clients[locks] = fmt.Sprintf("client %d", len(w.clients)+1)
	return locks
}

// take waits for the lock, and begins to write down that it is held. What may pass is tried again: on a busy machine a replica
// acknowledges late.
func (w *witness) take(locks *holdfast.Client) *testimony {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), crowdPatience)
	defer cancel()
	for {
		lease, err := locks.Mutex(witnessed).Lock(ctx)
		if err == nil {
			return w.testify(locks, lease)
		}
		if !mayPass(err) || ctx.Err() != nil {
			w.Fatal(err)
		}
	}
}

// testify begins to write down that a lease is held.
func (w *witness) testify(locks *holdfast.Client, lease *holdfast.Lease) *testimony {
	w.Helper()
	hold := history.Hold{Resource: witnessed, Kind: history.Exclusive, Token: lease.Token()}
	hold.Client = w.clients[locks]
	belief, ok := w.recorder.Begin(hold, func() bool { return lease.Err() == nil })
	if !ok {
		w.Fatalf("a lease that is over from its beginning: %v", lease.Err())
	}
	return &testimony{lease, belief}
}

// giveBack gives the lock back. Where the store cannot be told just now, as over a connection that has just died, the client
// goes on trying by itself.
func (w *witness) giveBack(held *testimony) {
	w.Helper()
	held.belief.End()
	if err := held.lease.Unlock(w.Context()); err != nil && !mayPass(err) {
		w.Fatal(err)
	}
}

// mayPass says whether an error is a fault of the store that is not final.
func mayPass(err error) bool {
	fault, ok := errors.AsType[*store.Fault](err)
	return ok && !fault.Final
}

// mustOverlap demands that these are believed at once, that the checkers see it, and that the later has the greater
// token: a fence refuses the earlier.
func (w *witness) mustOverlap(first, second *testimony) {
	w.Helper()
	overlaps, tokens := w.findings(second, first)
	if len(overlaps) != 1 || overlaps[0].Rule != check.Exclusion {
		w.Errorf("two hold at once, and what is found is %v", overlaps)
	}
	if len(tokens) != 0 || second.lease.Token() <= first.lease.Token() {
		w.Errorf("the tokens do not rise: %v", tokens)
	}
}

// mustExclude demands that nothing is found.
func (w *witness) mustExclude(held ...*testimony) {
	w.Helper()
	overlaps, tokens := w.findings(held...)
	for _, finding := range append(overlaps, tokens...) {
		w.Error(finding)
	}
}

// findings ends the testimonies, in this order, and checks them.
func (w *witness) findings(held ...*testimony) (overlaps, tokens []check.Finding) {
	w.Helper()
	for _, h := range held {
		h.belief.End()
	}
	holds, err := history.ReadDir(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	return check.Overlap(holds), check.Tokens(holds)
}

// mustLose demands that a lease is lost at its next renewal, and not because its time runs out.
func (w *witness) mustLose(held *testimony) {
	w.Helper()
	left := time.Until(held.lease.Until())
	select {
	case <-held.lease.Context().Done():
	case <-time.After(left):
	}
	if err := held.lease.Err(); !errors.Is(err, holdfast.ErrLost) || !strings.Contains(err.Error(), "the store no longer has it") {
		w.Errorf("the server does not know a lease any more that had %v left, and so much later it is %v", left, err)
	}
}
