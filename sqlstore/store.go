package sqlstore

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// sweepEvery is how often expired claims are removed from queues that nobody uses any more.
const sweepEvery = time.Minute

// A Store is one client's view of the locks in a database. It implements store.Store.
type Store struct {
	engine  Engine
	able    store.Abilities
	frame   *frame.Frame
	waiting lookout
	sweeper *time.Timer
}

var _ store.Store = (*Store)(nil)

// New returns a store of an engine, and closes the engine with it.
func New(engine Engine, f *frame.Frame, pace Pace) *Store {
	s := &Store{engine: engine, able: engine.Abilities(), frame: f}
	s.waiting.init(engine, f, pace)
	engine.Notify(s.hear)
	s.sweeper = time.AfterFunc(sweepEvery, s.sweep)
	return s
}

// Join implements store.Store.
func (s *Store) Join(ctx context.Context, c store.Claim) (store.Status, error) {
	call, err := s.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	answer, err := s.engine.Join(call.Context, &c)
	if err := call.Outcome(err); err != nil {
		return store.Status{}, err
	}
	return s.standing(&call, &c, &answer), nil
}

// Keep implements store.Store.
func (s *Store) Keep(ctx context.Context, cs []store.Claim) ([]store.Status, error) {
	limit, err := s.frame.CheckAll(ctx, cs)
	if err != nil || len(cs) == 0 {
		return nil, err
	}
	call := s.frame.Call(ctx, limit)
	defer call.End()
	answers, err := s.engine.Keep(call.Context, cs)
	if err := call.Outcome(err); err != nil {
		return nil, err
	}
	standings := make([]store.Status, len(cs))
	for i := range cs {
		standings[i] = s.standing(&call, &cs[i], &answers[i])
	}
	return standings, nil
}

// standing puts an answer into the client's time, and looks out for a claim that waits.
func (s *Store) standing(call *frame.Call, c *store.Claim, a *Answer) store.Status {
	if a.Err != nil {
		return store.Status{Err: a.Err}
	}
	standing := store.Status{State: a.State, Ticket: a.Ticket, Ahead: a.Ahead, Holder: a.Holder}
	if a.State != store.Waiting {
		s.waiting.remove(c.ID)
	} else {
		s.waiting.add(c, a.Ticket)
		if a.Opens > 0 {
			standing.RecheckAt = time.Now().Add(a.Opens)
		}
	}
	if a.State != store.Gone {
		standing.Until = call.Until(a.State, c.TTL)
	}
	return standing
}

// Leave implements store.Store.
func (s *Store) Leave(ctx context.Context, c store.Claim) error {
	call, err := s.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return err
	}
	defer call.End()
	s.waiting.remove(c.ID)
	return call.Outcome(s.engine.Leave(call.Context, &c))
}

// Break implements store.Store.
func (s *Store) Break(ctx context.Context, name string, ticket uint64) error {
	call, err := s.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return err
	}
	defer call.End()
	return call.Outcome(s.engine.Break(call.Context, name, ticket))
}

// Line implements store.Store.
func (s *Store) Queue(ctx context.Context, name string) (store.Queue, error) {
	call, err := s.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return store.Queue{}, err
	}
	defer call.End()
	line, err := s.engine.Queue(call.Context, name)
	return line, call.Outcome(err)
}

// Names implements store.Store.
func (s *Store) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return s.frame.Names(ctx, func(ctx context.Context) ([]string, error) {
		call := s.frame.Call(ctx, frame.AskTimeout)
		defer call.End()
		names, err := s.engine.Names(call.Context, prefix)
		return names, call.Outcome(err)
	})
}

// Notify implements store.Store.
func (s *Store) Notify(fn func(store.ID, store.Status)) { s.frame.Notify(fn) }

// Abilities implements store.Store.
func (s *Store) Abilities() store.Abilities { return s.able }

// NotifyRetry implements store.Retrier, for engines that do.
func (s *Store) NotifyRetry(fn func(error)) {
	if e, ok := s.engine.(store.Retrier); ok {
		e.NotifyRetry(fn)
	}
}

// Inherit implements store.Inheritor, for engines that do.
func (s *Store) Inherit() (end func(), err error) {
	if e, ok := s.engine.(store.Inheritor); ok {
		return e.Inherit()
	}
	return func() {}, nil
}

// Close implements store.Store. Claims that were not left stand until their ttl has passed, or until the engine finds
// that their client is gone.
func (s *Store) Close() error {
	if !s.frame.Shut() {
		return nil
	}
	s.waiting.close()
	s.sweeper.Stop() // no sweep runs any more that would set it
	return s.engine.Close()
}

// hear takes a push of the engine.
func (s *Store) hear(id store.ID, standing store.Status) {
	s.waiting.remove(id)
	s.frame.Push(id, standing)
}

// sweep runs every now and then. That it fails is no news: whoever uses the store is told.
func (s *Store) sweep() {
	s.frame.Go(func() {
		ctx, cancel := context.WithTimeout(s.frame.Life(), frame.AskTimeout)
		defer cancel()
		_ = s.engine.Sweep(ctx)
		s.sweeper.Reset(sweepEvery)
	})
}
