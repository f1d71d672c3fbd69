package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// TestCallEndsWithinTTL: a call that had to wait for another, and then for nodes that are silent, still ends when the
// ttl of its claim is over.
func TestCallEndsWithinTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ttl, timeout = time.Second, 600 * time.Millisecond
		g := newStage(t, ttl, timeout)
		began := time.Now()
		first := g.begin(vote.Take)
		second := make(chan error)
		go func() {
			p, err := g.bid.advance(t.Context(), make(outbox, 5), 0)
			if err == nil {
				_, err = p.wait(t.Context())
			}
			second <- err
		}()
		synctest.Wait() // it waits for the first
		g.pass()
		g.fails(first, "0 of 5 nodes succeeded, and 3 are needed", map[int]string{
			0: "no response in 600ms", 1: "no response in 600ms", 2: "no response in 600ms", 3: "no response in 600ms",
			4: "no response in 600ms",
		})
		err := <-second
		if took := time.Since(began); err == nil || took != ttl {
			t.Errorf("the second call took %v: %v", took, err)
		}
	})
}

// TestMadMarkIsNotForetold: the mark of one node whose clock is far ahead does not spoil what is proposed to the
// others.
func TestMadMarkIsNotForetold(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Second, 0).bid.store
	mark := func(ahead time.Duration) *vote.Answer {
		return &vote.Answer{
			Code:  vote.Granted,
			Votes: true,
			Mark:  uint64(time.Now().Add(ahead).UnixMicro()),
		} //nolint:gosec // after 1970
	}
	for node, ahead := range []time.Duration{time.Minute, 48 * time.Hour, time.Minute} {
		s.observe(node, mark(ahead))
	}
	if got := s.guess.Next(s.now()); got == 0 || got > mark(time.Hour).Mark {
		t.Errorf("%d is foretold", got)
	}
}
