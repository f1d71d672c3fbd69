package sqlstore

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/frame"
)

// sweepEvery is how often expired claims are removed from queues that no client uses any more.
const sweepEvery = time.Minute

// A Store is one client's view of the locks in a database. It implements store.Store and store.Detacher.
type Store struct {
	engine  Engine
	able    store.Abilities
	frame   *frame.Frame
	poller  poller
	sweeper *time.Timer
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Detacher = (*Store)(nil)
)

// New returns a Store that uses engine. Closing the store closes the engine.
func New(engine Engine, f *frame.Frame, pace Pace) *Store {
	s := &Store{engine: engine, able: engine.Abilities(), frame: f}
	s.poller.init(engine, f, pace)
	engine.Notify(s.receive)
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
	return s.status(&call, &c, c.TTL, &answer), nil
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
	statuses := make([]store.Status, len(cs))
	for i := range cs {
		statuses[i] = s.status(&call, &cs[i], cs[i].TTL, &answers[i])
	}
	return statuses, nil
}

// status converts the result for a claim with this ttl to the client's time, and starts or ends polling for the claim.
func (s *Store) status(call *frame.Call, c *store.Claim, ttl time.Duration, a *Result) store.Status {
	if a.Err != nil {
		return store.Status{Err: a.Err}
	}
	status := store.Status{State: a.State, Ticket: a.Ticket, Ahead: a.Ahead, Holder: a.Holder}
	if a.State != store.Waiting {
		s.poller.remove(c.ID)
	} else {
		s.poller.add(c, a.Ticket)
		if a.RecheckIn > 0 {
			status.RecheckAt = time.Now().Add(a.RecheckIn)
		}
	}
	if a.State != store.Gone {
		status.Until = call.Until(a.State, ttl)
	}
	return status
}

// Leave implements store.Store.
func (s *Store) Leave(ctx context.Context, c store.Claim) error {
	call, err := s.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return err
	}
	defer call.End()
	s.poller.remove(c.ID)
	return call.Outcome(s.engine.Leave(call.Context, &c))
}

// Detach implements store.Detacher.
func (s *Store) Detach(ctx context.Context, c store.Claim, as store.ID, d time.Duration) (store.Status, error) {
	return s.transfer(ctx, &c, d, func(ctx context.Context) (Result, error) { return s.engine.Detach(ctx, &c, as, d) })
}

// Attach implements store.Detacher.
func (s *Store) Attach(ctx context.Context, c store.Claim, from store.ID) (store.Status, error) {
	return s.transfer(ctx, &c, c.TTL, func(ctx context.Context) (Result, error) {
		return s.engine.Attach(ctx, &c, from)
	})
}

// transfer makes a call that gives a claim another ID and this ttl.
func (s *Store) transfer(ctx context.Context, c *store.Claim, ttl time.Duration,
	do func(context.Context) (Result, error)) (store.Status, error) {
	call, err := s.frame.Begin(ctx, c.Name, c.TTL)
	if err != nil {
		return store.Status{}, err
	}
	defer call.End()
	answer, err := do(call.Context)
	if err := call.Outcome(err); err != nil {
		return store.Status{}, err
	}
	return s.status(&call, c, ttl, &answer), nil
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

// Queue implements store.Store.
func (s *Store) Queue(ctx context.Context, name string) (store.Queue, error) {
	call, err := s.frame.Begin(ctx, name, frame.AskTimeout)
	if err != nil {
		return store.Queue{}, err
	}
	defer call.End()
	queue, err := s.engine.Queue(call.Context, name)
	return queue, call.Outcome(err)
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

// NotifyRetry implements store.Retrier. It does nothing if the engine does not implement it.
func (s *Store) NotifyRetry(fn func(error)) {
	if e, ok := s.engine.(store.Retrier); ok {
		e.NotifyRetry(fn)
	}
}

// Inherit implements store.Inheritor. It does nothing if the engine does not implement it.
func (s *Store) Inherit() (end func(), err error) {
	if e, ok := s.engine.(store.Inheritor); ok {
		return e.Inherit()
	}
	return func() {}, nil
}

// Close implements store.Store. Claims that were not left stay until they expire, or until the engine finds that their
// client is gone.
func (s *Store) Close() error {
	if !s.frame.Shut() {
		return nil
	}
	s.poller.close()
	s.sweeper.Stop() // no running sweep can reset it any more
	return s.engine.Close()
}

// receive handles a push from the engine.
func (s *Store) receive(id store.ID, status store.Status) {
	s.poller.remove(id)
	s.frame.Push(id, status)
}

// sweep runs every sweepEvery. Its error is dropped: a fault of the database also shows in the calls of clients.
func (s *Store) sweep() {
	s.frame.Go(func() {
		ctx, cancel := context.WithTimeout(s.frame.Life(), frame.AskTimeout)
		defer cancel()
		_ = s.engine.Sweep(ctx)
		s.sweeper.Reset(sweepEvery)
	})
}
