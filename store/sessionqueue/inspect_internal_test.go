package sessionqueue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A drainingQueue is a server whose queue has one claim after another ahead of "own", each of which leaves before it
// can be watched. It has what the tests need, and no more.
type drainingQueue struct {
	Server[int]
	ahead int // how many are still to be seen
}

func (*drainingQueue) Open(context.Context) (session int, ttl time.Duration, sent time.Time, err error) {
	return 1, time.Minute, time.Now(), nil
}

func (*drainingQueue) End(context.Context, int) {}

func (d *drainingQueue) Queue(context.Context, int, string) ([]Entry, error) {
	all := store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders}
	own := Entry{Key: "own", Demand: all}
	if d.ahead == 0 {
		return []Entry{own}, nil
	}
	d.ahead--
	return []Entry{{Key: fmt.Sprint("other", d.ahead), Demand: all}, own}, nil
}

func (*drainingQueue) Unwatch(int, Watch) {}

func (*drainingQueue) Watch(context.Context, int, Watch) (there bool, err error) { return false, nil }

// What is ahead of a claim leaves faster than it can be watched, more often than a look reads the queue: the claim is
// granted all the same, without waiting for its next Keep.
func TestLineThatDrainsFast(t *testing.T) {
	t.Parallel()
	s, c, pushes := waitingIn(t, Config[int]{Server: &drainingQueue{ahead: 2 * maxInspections}})
	s.mu.Lock()
	s.doubt(c)
	s.mu.Unlock()
	select {
	case status := <-pushes:
		if status.State != store.Held || status.Ticket != c.Ticket {
			t.Errorf("it is %v with ticket %d", status.State, status.Ticket)
		}
	case <-time.After(5 * time.Second):
		t.Error("it is not told that it holds")
	}
}

// The node of a waiting claim is deleted by others, and then the one ahead of it: it is not granted.
func TestDeletedClaimIsNotGranted(t *testing.T) {
	t.Parallel()
	s, c, pushes := waitingIn(t, Config[int]{Server: &drainingQueue{}})
	own, ahead := Watch{Key: c.Key}, Watch{Key: "other"}
	s.mu.Lock()
	c.waitsFor, c.noOthers = []Watch{ahead}, true
	for _, w := range []Watch{own, ahead} {
		s.watches[w] = &watching[int]{claims: map[*claim[int]]struct{}{c: {}}}
	}
	s.mu.Unlock()
	s.Changed(1, own, true)
	s.Changed(1, ahead, true)
	if status := <-pushes; status.State != store.Gone {
		t.Errorf("it is %v", status.State)
	}
}

// waitingIn returns a store with a claim that waits, and what is pushed.
func waitingIn(t *testing.T, config Config[int]) (*Store[int], *claim[int], <-chan store.Status) {
	t.Helper()
	config.Frame, config.TTL = frame.New(frame.Config{Name: "fake"}), time.Minute
	s := New(config)
	t.Cleanup(func() { _ = s.Close() })
	pushes := make(chan store.Status, 2)
	s.Notify(func(_ store.ID, status store.Status) { pushes <- status })
	ses, err := s.Sessions.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &claim[int]{
		Position: frame.Position[int]{ID: store.ID{1}, Name: "mine", Session: ses, Key: "own", Ticket: 7},
		demand:   store.Demand{Kind: store.Lock, Units: store.MaxReaders, Limit: store.MaxReaders},
		state:    store.Waiting,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admit(c)
	return s, c, pushes
}
