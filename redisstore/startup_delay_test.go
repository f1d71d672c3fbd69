package redisstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// With a startup delay, a restart without data lets nobody in while an earlier lease may last. Without one it does:
// that is what the startup delay is for.
func TestStartupDelay(t *testing.T) {
	t.Parallel()
	const guard = 4 * time.Second // longer than what must happen while it lasts takes on a busy machine
	for query, want := range map[string]store.State{"": store.Held, "?startup-delay=" + guard.String(): store.Waiting} {
		t.Run(want.String(), func(t *testing.T) {
			server, s := newServer(t, query)
			first, next := claim("guarded"), claim("guarded")
			testkit.Join(t, s, &first, want) // a database that was never used may be one that has lost its data
			testkit.AwaitHeld(t, s, first)
			testkit.Must(t, server.Restart(false))
			started := time.Now()
			reach(t, s)
			standing := testkit.Join(t, s, &next, want)
			if want == store.Held {
				return
			}
			testkit.Keep(t, s, first, store.Gone)
			if again := time.Until(standing.RecheckAt); again <= 0 || again > guard+100*time.Millisecond {
				t.Errorf("who waits for the guard to end is to ask again in %v", again)
			}
			hasty := claim("guarded free")
			hasty.Try = true
			_, err := s.Join(t.Context(), hasty)
			if fault, ok := errors.AsType[*store.Fault](err); !ok || fault.Final {
				t.Errorf("a Try while the guard lasts: %v, want a fault that passes", err)
			}
			time.Sleep(time.Until(standing.RecheckAt)) // as a client would
			testkit.Keep(t, s, next, store.Held)
			if after := time.Since(started); after < guard-100*time.Millisecond {
				t.Errorf("it was granted %v after the start, and the guard is %v", after, guard)
			}
		})
	}
}

// FLUSHALL is a loss of data too.
func TestStartupDelayAfterFlush(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "?startup-delay=4s")
	first := testkit.Waiting(t, s, claim("flushed"))
	testkit.AwaitHeld(t, s, first)
	do(t, server, "FLUSHALL")
	next := testkit.Waiting(t, s, claim("flushed"))
	testkit.AwaitHeld(t, s, next)
}

// A hand-over is a grant as well: what the server remembers may be older than what it did.
func TestStartupDelayCoversHandOver(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "?startup-delay=4s")
	first, next := claim("handed"), claim("handed")
	testkit.Join(t, s, &first, store.Waiting)
	testkit.AwaitHeld(t, s, first)
	testkit.Join(t, s, &next, store.Waiting)
	testkit.Must(t, server.Restart(true))
	reach(t, s)
	testkit.Keep(t, s, first, store.Held) // what is held stays held
	testkit.Leave(t, s, first)
	testkit.Keep(t, s, next, store.Waiting)
	testkit.AwaitHeld(t, s, next)
}
