package sqlstore

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/leaks"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// A fake is an engine whose answers a test decides on.
type fake struct {
	listens bool // hears of its grants
	plain   bool // is no Detector

	mu      sync.Mutex
	states  map[store.ID]store.State // a claim that is not in it waits
	errs    map[store.ID]error       // a claim that is in it gets no other response
	opens   time.Duration
	changed bool
	hooks   map[string]func(context.Context) error // what is done before a call returns
	calls   map[string]int
	looked  []store.Claim // by the last Look
	hear    func(store.ID, store.Status)
}

// A push is what a client was told, and when.
type push struct {
	id     store.ID
	status store.Status
	at     time.Time
}

// bubble runs a test in fake time, on a store over a fake.
func bubble(t *testing.T, f *fake, test func(t *testing.T, s *Store, told <-chan push)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f.states, f.errs = map[store.ID]store.State{}, map[store.ID]error{}
		f.calls, f.hooks = map[string]int{}, map[string]func(context.Context) error{}
		var engine Engine = f
		if f.plain {
			engine = struct{ Engine }{f}
		}
		s := New(engine, frame.New(frame.Config{Name: "fake", Drift: frame.OneClock, PushesWithCalls: true}), testPace)
		defer s.Close()
		told := make(chan push, 16)
		s.Notify(func(id store.ID, status store.Status) { told <- push{id, status, time.Now()} })
		test(t, s, told)
	})
}

// on sets what a call does before it returns what it had to say when it came.
func (f *fake) on(call string, do func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hooks[call] = do
}

// failOnce lets the next call fail.
func (f *fake) failOnce(call string, err error) {
	f.on(call, func(context.Context) error { f.on(call, nil); return err })
}

// set says where a claim stands, and whether that is a change which is seen.
func (f *fake) set(id store.ID, state store.State, changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states[id], f.changed = state, changed
}

func (f *fake) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

func (f *fake) answers(cs ...store.Claim) []Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	answers := make([]Result, len(cs))
	for i := range cs {
		if answers[i].Err = f.errs[cs[i].ID]; answers[i].Err != nil {
			continue
		}
		state, said := f.states[cs[i].ID]
		if !said {
			state = store.Waiting
		}
		answers[i] = Result{State: state, Ticket: 5, RecheckIn: f.opens}
	}
	return answers
}

func (f *fake) called(ctx context.Context, call string) error {
	f.mu.Lock()
	f.calls[call]++
	hook := f.hooks[call]
	f.mu.Unlock()
	if hook != nil {
		return hook(ctx)
	}
	return nil
}

func (f *fake) Join(ctx context.Context, c *store.Claim) (Result, error) {
	return f.answers(*c)[0], f.called(ctx, "Join")
}

func (f *fake) Keep(ctx context.Context, cs []store.Claim) ([]Result, error) {
	return f.answers(cs...), f.called(ctx, "Keep")
}

func (f *fake) Poll(ctx context.Context, cs []store.Claim) ([]Result, error) {
	f.mu.Lock()
	f.looked = cs
	f.mu.Unlock()
	return f.answers(cs...), f.called(ctx, "Look")
}

func (f *fake) Changed(ctx context.Context) (bool, error) {
	f.mu.Lock()
	changed := f.changed
	f.changed = false
	f.mu.Unlock()
	return changed, f.called(ctx, "Changed")
}

func (f *fake) Leave(ctx context.Context, _ *store.Claim) error { return f.called(ctx, "Leave") }

func (f *fake) Detach(ctx context.Context, _ *store.Claim, as store.ID, _ time.Duration) (Result, error) {
	return f.answers(store.Claim{ID: as})[0], f.called(ctx, "Detach")
}

func (f *fake) Attach(ctx context.Context, c *store.Claim, _ store.ID) (Result, error) {
	return f.answers(*c)[0], f.called(ctx, "Attach")
}

func (f *fake) Break(ctx context.Context, _ string, _ uint64) error { return f.called(ctx, "Break") }

func (f *fake) Queue(ctx context.Context, name string) (store.Queue, error) {
	return store.Queue{Name: name}, f.called(ctx, "Line")
}

func (f *fake) Names(ctx context.Context, _ string) ([]string, error) {
	return []string{"a", "b", "c"}, f.called(ctx, "Names")
}

func (f *fake) Sweep(ctx context.Context) error { return f.called(ctx, "Sweep") }

func (f *fake) Listen() bool { return f.called(context.Background(), "Listen") == nil && f.listens }

func (f *fake) Notify(fn func(store.ID, store.Status)) { f.hear = fn }

func (f *fake) Abilities() store.Abilities { return store.Abilities{Store: "fake"} }

func (f *fake) Close() error { return f.called(context.Background(), "Close") }

const ttl = 5 * time.Minute

var testPace = Pace{First: time.Millisecond, Most: 50 * time.Millisecond, Listening: 200 * time.Millisecond}

func claim(n byte) store.Claim { return store.Claim{ID: store.ID{n}, Name: "x", TTL: ttl} }

// join joins a claim, and lets the lookout do what it has to do at once.
func join(t *testing.T, s *Store, c store.Claim, want store.State) store.Status {
	t.Helper()
	status, err := s.Join(t.Context(), c)
	if err != nil || status.State != want {
		t.Fatalf("%v, %v; want %v", status.State, err, want)
	}
	synctest.Wait()
	return status
}

// wantPush wants a push about a claim within some time, and nothing else.
func wantPush(t *testing.T, told <-chan push, within time.Duration, id store.ID, state store.State) {
	t.Helper()
	start := time.Now()
	select {
	case p := <-told:
		if p.id != id || p.status.State != state || p.at.Sub(start) > within {
			t.Errorf("told %v, %v after %v; want %v, %v", p.id, p.status.State, p.at.Sub(start), id, state)
		}
	case <-time.After(time.Hour):
		t.Errorf("never told of %v", id)
	}
}

// wantNoPush wants nothing to be told for some time.
func wantNoPush(t *testing.T, told <-chan push) {
	t.Helper()
	select {
	case p := <-told:
		t.Errorf("told %v, %v", p.id, p.status.State)
	case <-time.After(time.Minute):
	}
}
