package testkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// A Journal records which clients believe to hold one lock, in the form of the processes of a Scene, while a test plays
// an exact schedule.
type Journal struct {
	*testing.T
	Mutex string // the name of the lock
	Dir   string // of the histories
	Retry bool   // calls that fail with an error that may pass are made again

	recorder *history.Recorder
	clients  map[*holdfast.Client]string // by name
}

// NewJournal returns a journal of the lock of this name, with its history in dir.
func NewJournal(t *testing.T, dir, name string) *Journal {
	t.Helper()
	recorder, err := history.Create(dir, "test")
	Must(t, err)
	t.Cleanup(func() { Check(t, recorder.Close()) })
	return &Journal{T: t, Mutex: name, Dir: dir, recorder: recorder, clients: map[*holdfast.Client]string{}}
}

// Must ends the test if err is not nil.
func (j *Journal) Must(err error) {
	j.Helper()
	Must(j, err)
}

// Open opens a client by URL.
func (j *Journal) Open(url string, options ...holdfast.Option) *holdfast.Client {
	j.Helper()
	locks, err := holdfast.Open(j.Context(), url, options...)
	j.Must(err)
	return j.Add(locks)
}

// Add gives a client a name in the journal and closes it at the end of the test.
func (j *Journal) Add(locks *holdfast.Client) *holdfast.Client {
	j.Cleanup(func() { locks.Close() })
	j.clients[locks] = fmt.Sprintf("client %d", len(j.clients)+1)
	return locks
}

// A Hold is a hold of the lock that is being recorded.
type Hold struct {
	*holdfast.Lease                 // nil: it is no lock of Holdfast's
	Done            <-chan struct{} // of the lease's context
	belief          *history.Belief
	asking          sync.WaitGroup
}

// Record begins to record that a client holds the lock. The record ends when the client no longer believes so.
func (j *Journal) Record(client string, token holdfast.Token, believed func() bool) (*Hold, error) {
	hold := history.Hold{Who: history.Who{Client: client}, Resource: j.Mutex, Kind: history.Exclusive, Token: token}
	belief, ok := j.recorder.Begin(hold, believed)
	if !ok {
		return nil, errors.New("a lease that is over from its beginning")
	}
	h := &Hold{belief: belief}
	h.asking.Go(func() {
		for belief.Check() {
			time.Sleep(time.Millisecond)
		}
	})
	j.Cleanup(h.End)
	return h, nil
}

// End records the end of the hold.
func (h *Hold) End() {
	h.belief.End()
	h.asking.Wait()
}

// Believed reports whether the holder believes in the hold.
func (h *Hold) Believed() bool { return h.belief.Check() }

// EndsIn reports whether the lease's context ends within d.
func (h *Hold) EndsIn(d time.Duration) bool {
	select {
	case <-h.Done:
		return true
	case <-time.After(d):
		return false
	}
}

// Take acquires the lock and records the hold.
func (j *Journal) Take(locks *holdfast.Client) *Hold {
	j.Helper()
	ctx, cancel := context.WithTimeout(j.Context(), ScenePatience)
	defer cancel()
	for {
		h, err := j.TryTake(ctx, locks)
		if err == nil {
			return h
		}
		if !j.Retry || !Passes(err) || ctx.Err() != nil {
			j.Fatal(err)
		}
	}
}

// TryTake is Take, but returns an error instead of failing the test.
func (j *Journal) TryTake(ctx context.Context, locks *holdfast.Client) (*Hold, error) {
	lease, err := locks.Mutex(j.Mutex).Lock(ctx)
	if err != nil {
		return nil, err
	}
	within := lease.Context()
	h, err := j.Record(j.clients[locks], lease.Token(), func() bool { return within.Err() == nil })
	if err != nil {
		return nil, err
	}
	h.Lease, h.Done = lease, within.Done()
	return h, nil
}

// Release ends a hold and unlocks. With Retry, an error is accepted: the client itself retries in the background.
func (j *Journal) Release(h *Hold) {
	j.Helper()
	h.End()
	if err := h.Unlock(j.Context()); err != nil && !(j.Retry && Passes(err)) {
		j.Fatal(err)
	}
}

// A Waiter is a client that waits for the lock.
type Waiter struct {
	journal *Journal
	got     chan *Hold
	err     error // if got is closed
}

// Wait makes a client wait for the lock, in a goroutine.
func (j *Journal) Wait(locks *holdfast.Client) *Waiter {
	w := &Waiter{journal: j, got: make(chan *Hold, 1)}
	ctx, cancel := context.WithTimeout(j.Context(), ScenePatience)
	go func() {
		defer cancel()
		h, err := j.TryTake(ctx, locks)
		if w.err = err; err != nil {
			close(w.got)
			return
		}
		w.got <- h
	}()
	return w
}

// Granted waits until the client has acquired the lock.
func (w *Waiter) Granted() *Hold {
	w.journal.Helper()
	h, ok := w.GrantedIn(ScenePatience)
	if !ok {
		w.journal.Fatal("it is not granted the lock")
	}
	return h
}

// GrantedIn waits up to d and reports whether the client has acquired the lock.
func (w *Waiter) GrantedIn(d time.Duration) (*Hold, bool) {
	w.journal.Helper()
	select {
	case h, ok := <-w.got:
		if !ok {
			w.journal.Fatal(w.err)
		}
		return h, true
	case <-time.After(d):
		return nil, false
	}
}

// MustLose checks that a lease is lost within d, for a reason that has these words, and that its context ends.
func (j *Journal) MustLose(h *Hold, d time.Duration, because string) {
	j.Helper()
	if !h.EndsIn(d) {
		j.Errorf("the context of a lease that should be lost has not ended after %v", d)
	}
	if err := h.Err(); !errors.Is(err, holdfast.ErrLost) || !strings.Contains(err.Error(), because) {
		j.Errorf("the lease is %v, want %v because %q", err, holdfast.ErrLost, because)
	}
	if h.Believed() {
		j.Error("its holder believes in it")
	}
}

// MustExclude ends holds, in this order, and checks that no two were believed at once and that tokens rise.
func (j *Journal) MustExclude(holds ...*Hold) {
	j.Helper()
	overlaps, tokens := j.Findings(holds...)
	CheckNothing(j, append(overlaps, tokens...))
}

// MustOverlap ends holds of a lock that is broken, in this order, and checks that the checkers detect it.
func (j *Journal) MustOverlap(holds ...*Hold) {
	j.Helper()
	if overlaps, _ := j.Findings(holds...); len(overlaps) == 0 {
		j.Error("two hold at once, and nothing is found")
	}
}

// Findings ends holds, in this order, and returns what the checkers find in the history.
func (j *Journal) Findings(holds ...*Hold) (overlaps, tokens []check.Finding) {
	j.Helper()
	for _, h := range holds {
		h.End()
	}
	recorded, err := history.ReadDir(j.Dir)
	j.Must(err)
	return check.Overlap(recorded), check.Tokens(recorded)
}
