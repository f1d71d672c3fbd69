package holdfast_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// A joinRecorder is a store that records the claims that join it, and fails their Joins on demand.
type joinRecorder struct {
	store.Store
	mu     sync.Mutex
	claims []store.Claim
	refuse error        // what Join returns, if not nil
	state  *store.State // what Join reports, if not nil
}

func (s *joinRecorder) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	s.mu.Lock()
	s.claims = append(s.claims, c)
	refuse, state := s.refuse, s.state
	s.mu.Unlock()
	if refuse != nil {
		return store.Status{}, refuse
	}
	status, err := s.Store.Join(ctx, c)
	if state != nil {
		status.State = *state
	}
	return status, err
}

// names returns the names of the claims that joined.
func (s *joinRecorder) names() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.claims {
		names = append(names, c.Name)
	}
	return names
}

// pinged returns a client of the rig's server, the link between them, and a record of its Joins.
func (r *rig) pinged(options ...holdfast.Option) (*holdfast.Client, *storetest.Pipe, *joinRecorder) {
	pipe := storetest.NewPipe()
	recorder := &joinRecorder{Store: r.server.Connect(memstore.WithNetwork(pipe))}
	c := holdfast.New(recorder, options...)
	r.Cleanup(func() { pipe.Kill(); c.Close() })
	return c, pipe, recorder
}

// TestPing checks that Ping acquires a lock of a new name each time, and leaves nothing of it.
func TestPing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, _, joins := r.pinged()
		r.must(c.Ping(t.Context()))
		r.must(c.Ping(t.Context()))
		names := joins.names()
		if len(names) != 2 || names[0] == names[1] {
			t.Fatalf("it joined %q", names)
		}
		if claim := joins.claims[0]; !claim.Try || claim.TTL > 5*time.Second {
			t.Errorf("its claim is %+v", claim)
		}
		r.nothingLeft(names...)
	})
}

// TestPingDoesNotMeetLocks checks that Ping waits for no lock, whichever are held.
func TestPingDoesNotMeetLocks(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.client()
		l := r.lock(c.Mutex("x").Lock)
		r.must(c.Ping(l.Context()))
		if l.Err() != nil {
			t.Fatal(l.Err())
		}
	})
}

// TestPingOfAStoreThatIsCutOff checks that a broken connection is a *Fault at once, and that Ping succeeds when the
// connection is back.
func TestPingOfAStoreThatIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c, pipe, joins := r.pinged()
		pipe.Cut()
		began := time.Now()
		err := c.Ping(t.Context())
		if fault := (*holdfast.Fault)(nil); !errors.As(err, &fault) || fault.Final || time.Since(began) != 0 {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		pipe.Heal()
		r.must(c.Ping(t.Context()))
		r.nothingRemains(joins.names()...)
	})
}

// TestPingOfASilentStore checks that Ping gives up after 5 seconds, or at the deadline of its context, and that a Join
// which lands late is cleaned up.
func TestPingOfASilentStore(t *testing.T) {
	for what, test := range map[string]struct {
		bound time.Duration // of the context; 0: none
		want  time.Duration
	}{
		"no deadline": {0, 5 * time.Second},
		"deadline":    {time.Second, time.Second},
	} {
		for where, hold := range map[string]func(*storetest.Pipe) func(){
			"requests": (*storetest.Pipe).HoldRequests,
			"replies":  (*storetest.Pipe).HoldReplies,
		} {
			scene(t, what+"/"+where, func(t *testing.T, r *rig) {
				c, pipe, joins := r.pinged()
				release := hold(pipe)
				ctx := t.Context()
				if test.bound > 0 {
					ctx = r.within(test.bound)
				}
				began := time.Now()
				err := c.Ping(ctx)
				if took := time.Since(began); took != test.want {
					t.Errorf("it took %v", took)
				}
				var fault *holdfast.Fault
				if !errors.As(err, &fault) || errors.Is(err, context.DeadlineExceeded) != (test.bound > 0) {
					t.Errorf("the error is %v", err)
				}
				release()
				r.must(c.Ping(t.Context()))
				r.nothingRemains(joins.names()...)
			})
		}
	}
}

// TestPingErrors checks that a caller can tell the reasons apart.
func TestPingErrors(t *testing.T) {
	waiting := store.Waiting
	for what, test := range map[string]struct {
		prepare func(r *rig) (*holdfast.Client, context.Context)
		want    error
		fault   bool
	}{
		"closed": {func(r *rig) (*holdfast.Client, context.Context) {
			c := r.client()
			r.must(c.Close())
			return c, r.Context()
		}, holdfast.ErrClosed, false},
		"cancelled": {func(r *rig) (*holdfast.Client, context.Context) {
			c, pipe, _ := r.pinged()
			pipe.HoldRequests()
			ctx, cancel := context.WithCancel(r.Context())
			time.AfterFunc(time.Second, cancel)
			return c, ctx
		}, context.Canceled, false},
		"closed meanwhile": {func(r *rig) (*holdfast.Client, context.Context) {
			c, pipe, _ := r.pinged()
			pipe.HoldRequests()
			time.AfterFunc(time.Second, func() { c.Close() })
			return c, r.Context()
		}, holdfast.ErrClosed, false},
		"refused": {func(r *rig) (*holdfast.Client, context.Context) {
			c, _, joins := r.pinged()
			joins.refuse = &holdfast.Fault{Store: "memory", Final: true, Err: errRefused}
			return c, r.Context()
		}, errRefused, true},
		"a newer format": {func(r *rig) (*holdfast.Client, context.Context) {
			c, _, joins := r.pinged()
			joins.refuse = store.ErrFormat
			return c, r.Context()
		}, holdfast.ErrFormat, false},
		"not granted": {func(r *rig) (*holdfast.Client, context.Context) {
			c, _, joins := r.pinged()
			joins.state = &waiting
			return c, r.Context()
		}, nil, true},
		"a bad option": {func(r *rig) (*holdfast.Client, context.Context) {
			return r.client(holdfast.WithTTL(-1)), r.Context()
		}, holdfast.ErrBadTTL, false},
		"no context": {func(r *rig) (*holdfast.Client, context.Context) { return r.client(), nil },
			holdfast.ErrNilContext, false},
	} {
		scene(t, what, func(t *testing.T, r *rig) {
			c, ctx := test.prepare(r)
			err := c.Ping(ctx)
			var wrapped *holdfast.Error
			if !errors.As(err, &wrapped) || wrapped.Op != "ping" || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got %v", err)
			}
			var fault *holdfast.Fault
			if errors.As(err, &fault) != test.fault {
				t.Errorf("got %v, and fault: %v", err, !test.fault)
			}
			synctest.Wait()
		})
	}
}

var errRefused = errors.New("the user has no right to write")
