package frame_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// A deletesTest is a store that has nothing but a session and what is to be deleted. A delete takes a second.
type deletesTest struct {
	*sessionTest
	*frame.Deletes[int]
	err     error
	batches [][]frame.Position[int]
	deleted []store.ID
}

// withDeletes runs a test in fake time. A delete may take five seconds.
func withDeletes(t *testing.T, test func(*deletesTest)) {
	withSessions(t, func(s *sessionTest) {
		t := &deletesTest{sessionTest: s}
		t.Deletes = frame.NewDeletes(s.Frame, frame.DeletesConfig[int]{
			Sessions: s.Sessions, Limit: 5 * time.Second, Delete: t.delete,
			Deleted: func(p frame.Position[int]) { t.deleted = append(t.deleted, p.ID) },
		})
		test(t)
	})
}

func (t *deletesTest) delete(ctx context.Context, all []frame.Position[int]) error {
	t.server.change(func() { t.batches = append(t.batches, all) })
	if err := t.server.respond(ctx); err != nil {
		return err
	}
	if t.err != nil {
		return t.err
	}
	for _, p := range all {
		t.Done(p)
	}
	return nil
}

// takes sets how long a delete takes.
func (t *deletesTest) takes(d time.Duration) { t.server.change(func() { t.server.takes = d }) }

// claim returns the position of a claim of the session.
func (t *deletesTest) claim(n byte, unsure bool) frame.Position[int] {
	t.Helper()
	return frame.Position[int]{
		ID:      store.ID{n},
		Name:    "a",
		Session: t.open(),
		Key:     "k",
		Ticket:  uint64(n),
		Unsure:  unsure,
	}
}

// check demands how many claims were deleted, by how many calls, and that a claim is pending or not.
func (t *deletesTest) check(deleted, calls int, of frame.Position[int], pending bool) {
	t.Helper()
	if len(t.deleted) != deleted || len(t.batches) != calls {
		t.Errorf("%d claims were deleted by %d calls, want %d by %d", len(t.deleted), len(t.batches), deleted, calls)
	}
	t.Sessions.Mutex.Lock()
	defer t.Sessions.Mutex.Unlock()
	if _, is := t.Pending(of.ID); is != pending {
		t.Errorf("it is pending: %v, want %v", is, pending)
	}
}

// TestDeleteThatFails: what could not be deleted is pending, and deleted when the server responds again.
func TestDeleteThatFails(t *testing.T) {
	withDeletes(t, func(t *deletesTest) {
		p := t.claim(1, false)
		t.err = errors.New("out of order")
		if err := t.Now(t.Context(), p); !errors.Is(err, t.err) {
			t.Errorf("Now: %v", err)
		}
		t.check(0, 1, p, true)
		if err := t.Await(t.Context(), p.ID); !errors.Is(err, t.err) {
			t.Errorf("Await: %v", err)
		}
		t.err = nil
		t.Retry()
		t.sleep(time.Second)
		t.check(1, 3, p, false)
	})
}

// TestDeleteOfAnotherFails: a claim that was deleted is, also if another could not be deleted in the same round.
func TestDeleteOfAnotherFails(t *testing.T) {
	withDeletes(t, func(t *deletesTest) {
		stuck, p := t.claim(1, true), t.claim(2, true)
		refused := errors.New("refused")
		t.Delete = func(_ context.Context, all []frame.Position[int]) error {
			for _, p := range all {
				if p.ID != stuck.ID {
					t.Done(p)
				}
			}
			return refused
		}
		if err := t.Now(t.Context(), stuck); !errors.Is(err, refused) {
			t.Errorf("Now: %v", err)
		}
		if err := t.Now(t.Context(), p); err != nil {
			t.Errorf("Now of the other: %v", err)
		}
		t.Later(p)
		if err := t.Await(t.Context(), p.ID); err != nil {
			t.Errorf("Await of the other: %v", err)
		}
		t.check(2, 0, stuck, true)
	})
}

// TestDeletesTogether: claims that may still land are deleted together, by those who give them up at the same time.
func TestDeletesTogether(t *testing.T) {
	withDeletes(t, func(t *deletesTest) {
		claims := []frame.Position[int]{t.claim(1, true), t.claim(2, true), t.claim(3, true)}
		t.takes(time.Second)
		var leaving sync.WaitGroup
		for _, p := range claims {
			leaving.Go(func() {
				if err := t.Now(t.Context(), p); err != nil {
					t.Errorf("claim %d: %v", p.Ticket, err)
				}
			})
			t.sleep(time.Second / 4)
		}
		leaving.Wait()
		t.check(3, 2, claims[0], false)
	})
}

// TestDeleteIsLate: a claim that was deleted, and has been given up once more since, may still land. It stays pending.
func TestDeleteIsLate(t *testing.T) {
	withDeletes(t, func(t *deletesTest) {
		sure, unsure := t.claim(1, false), t.claim(1, true)
		unsure.Key = ""
		t.takes(time.Second)
		var leaving sync.WaitGroup
		leaving.Go(func() {
			if err := t.Now(t.Context(), sure); err != nil {
				t.Errorf("Now: %v", err)
			}
		})
		t.sleep(time.Second / 2)
		t.Later(unsure)
		leaving.Wait()
		t.check(0, 1, unsure, true)
		t.Later(sure) // it is not forgotten that it may still land, nor where it stands
		t.Later(unsure)
		if err := t.Await(t.Context(), unsure.ID); err != nil {
			t.Errorf("Await: %v", err)
		}
		t.check(1, 2, unsure, false)
		if got := t.batches[1][0]; !got.Unsure || got.Key != sure.Key {
			t.Errorf("%+v was deleted", got)
		}
	})
}

// TestDeleteOutlastsItsLimit: a caller waits for a server that is slow for as long as its own context allows.
func TestDeleteOutlastsItsLimit(t *testing.T) {
	withDeletes(t, func(t *deletesTest) {
		p := t.claim(1, true)
		t.takes(time.Hour)
		time.AfterFunc(12*time.Second, func() { t.takes(0) })
		if err := t.Now(t.Context(), p); err != nil {
			t.Errorf("Now: %v", err)
		}
		t.check(1, 4, p, false)
		t.takes(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		if err := t.Now(ctx, t.claim(2, true)); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil {
			t.Errorf("Now: %v", err)
		}
	})
}

// TestDeletesOfLostSession: what was to be deleted under a session goes with it, and frees nothing of the next.
func TestDeletesOfLostSession(t *testing.T) {
	withDeletes(t, func(t *deletesTest) {
		p := t.claim(1, false)
		t.takes(time.Second)
		var leaving sync.WaitGroup
		leaving.Go(func() {
			if err := t.Now(t.Context(), p); err != nil {
				t.Errorf("Now: %v", err)
			}
		})
		t.sleep(time.Second / 2)
		t.Sessions.Mutex.Lock()
		t.Lose(p.Session)
		t.Forget()
		t.Sessions.Mutex.Unlock()
		leaving.Wait()
		t.Later(p)
		t.check(0, 1, p, false)
	})
}

// TestGiveUp: the error of a Join is told as it is, and final only if nothing of the claim stands nor can come to.
func TestGiveUp(t *testing.T) {
	final, passing := &store.Fault{
		Final: true,
		Err:   errors.New("forbidden"),
	}, &store.Fault{
		Err: errors.New("no answer"),
	}
	for name, test := range map[string]struct {
		unsure      bool
		err, failed error // of the Join, and of the delete
		want        error
		deleted     int
		calls       int
		pending     bool
	}{
		"nothing was sent":               {false, passing, nil, passing, 1, 0, false},
		"it may still land":              {true, passing, nil, passing, 0, 0, true},
		"refused, and deleted":           {true, nil, nil, nil, 1, 1, false},
		"refused, and not deleted":       {true, nil, passing, passing, 0, 1, true},
		"final, and deleted":             {true, final, nil, final, 1, 1, false},
		"final, and not deleted":         {true, final, passing, passing, 0, 1, true},
		"final, and forbidden to delete": {true, final, final, nil, 0, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			withDeletes(t, func(t *deletesTest) {
				p := t.claim(1, test.unsure)
				t.err = test.failed
				call, err := t.Begin(t.Context(), "a", time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				defer call.End()
				err = t.GiveUp(&call, p, test.err)
				if test.want == nil && test.failed != nil {
					if err == nil || store.Final(err) {
						t.Errorf("GiveUp: %v, which is final", err)
					}
				} else if !errors.Is(err, test.want) {
					t.Errorf("GiveUp: %v, want %v", err, test.want)
				}
				t.check(test.deleted, test.calls, p, test.pending)
			})
		})
	}
}

// TestGiveUpOfWhatIsPending: a Join that sent nothing does not forget what is left of an earlier one.
func TestGiveUpOfWhatIsPending(t *testing.T) {
	withDeletes(t, func(t *deletesTest) {
		p := t.claim(1, false)
		t.Later(p)
		call, err := t.Begin(t.Context(), "a", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer call.End()
		if err := t.GiveUp(&call, p, store.ErrFloor); !errors.Is(err, store.ErrFloor) {
			t.Errorf("GiveUp: %v", err)
		}
		t.check(0, 0, p, true)
	})
}
