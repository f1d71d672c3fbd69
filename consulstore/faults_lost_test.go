package consulstore_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A Join is carried out and its response is lost: no claim is blocked by the key that its caller does not know of.
func testLostResponse(t *testing.T, c *servers.ConsulServers) {
	w := newWitness(t, c)
	f, s := newFerry(t, c.Endpoints()[0], lastingTTL)
	claim := testkit.Claim(w.Mutex, lastingTTL)
	f.decide(unanswered)
	if status, err := s.Join(t.Context(), claim); err == nil {
		t.Errorf("Join without a response says %v", status.State)
	}
	testkit.Await(t, "the key that no claim knows of is deleted", func() bool { return len(w.keys()) == 0 })
	held := w.Take(w.OpenLong())
	w.Release(held)
	w.MustExclude(held, w.Take(w.Add(holdfast.New(s))))
}

// A request to join is on its way until its caller has given up and has left. When it arrives, nothing comes of it,
// ever. Without the session's epoch it would is in the queue, and no client would know of it.
func testLateRequest(t *testing.T, c *servers.ConsulServers) {
	for name, test := range map[string]struct {
		withoutEpoch bool
		status, line int
	}{
		"store":            {false, http.StatusConflict, 0},
		"without an epoch": {true, http.StatusOK, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, c)
			f, s := newFerry(t, c.Endpoints()[0], longTTL)
			claim := testkit.Claim(w.Mutex, longTTL)
			f.decide(stranded)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if status, err := s.Join(ctx, claim); err == nil {
				t.Fatalf("Join without a response says %v", status.State)
			}
			testkit.Leave(t, s, claim)
			if status := f.land(t, test.withoutEpoch); status != test.status {
				t.Errorf("the late Join got status %d, want %d", status, test.status)
			}
			if line := w.keys(); len(line) != test.line {
				t.Errorf("the line is %v, want %d keys", line, test.line)
			}
		})
	}
}
