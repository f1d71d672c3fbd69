package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// margin is how much earlier than the database a client believes its claim to be over. The database's clock
	// starts later than the request was sent; the margin covers that two clocks of one machine do not tick alike.
	margin = time.Millisecond

	// askTimeout bounds the calls that no ttl bounds.
	askTimeout = 10 * time.Second

	// sweepEvery is how often dead claims are removed from lines that nobody uses any more.
	sweepEvery = time.Minute
)

// A Store is one client's view of the locks in a database. It implements store.Store.
type Store struct {
	engine  Engine
	able    store.Abilities
	notify  atomic.Pointer[func(store.ID, store.Standing)]
	closed  atomic.Bool
	failed  atomic.Bool // a call failed: pushes may have been lost with it
	waiting lookout
	listen  sync.Once
	sweeper *time.Timer
}

var _ store.Store = (*Store)(nil)

// New makes a store of an engine, and closes the engine with it.
func New(engine Engine) *Store {
	s := &Store{engine: engine, able: engine.Abilities()}
	s.waiting.init(engine, s.push)
	engine.Notify(s.hear)
	s.sweeper = time.AfterFunc(sweepEvery, s.sweep)
	return s
}

// Join implements store.Store.
func (s *Store) Join(ctx context.Context, c store.Claim) (store.Standing, error) {
	if err := s.check(ctx, c.Name); err != nil {
		return store.Standing{}, err
	}
	sent := time.Now()
	answer, err := call(ctx, s, c.TTL, func(ctx context.Context) (Answer, error) { return s.engine.Join(ctx, &c) })
	if err != nil {
		return store.Standing{}, err
	}
	return s.standing(&c, &answer, sent), nil
}

// Keep implements store.Store.
func (s *Store) Keep(ctx context.Context, cs []store.Claim) ([]store.Standing, error) {
	if len(cs) == 0 {
		return nil, s.alive(ctx)
	}
	ttl := cs[0].TTL
	for i := range cs {
		if err := s.check(ctx, cs[i].Name); err != nil {
			return nil, err
		}
		ttl = min(ttl, cs[i].TTL)
	}
	sent := time.Now()
	answers, err := call(ctx, s, ttl, func(ctx context.Context) ([]Answer, error) { return s.engine.Keep(ctx, cs) })
	if err != nil {
		return nil, err
	}
	standings := make([]store.Standing, len(cs))
	for i := range cs {
		standings[i] = s.standing(&cs[i], &answers[i], sent)
	}
	return standings, nil
}

// standing puts an answer into the client's time, and looks out for a claim that waits.
func (s *Store) standing(c *store.Claim, a *Answer, sent time.Time) store.Standing {
	if a.Err != nil {
		return store.Standing{Err: a.Err}
	}
	standing := store.Standing{State: a.State, Ticket: a.Ticket, Ahead: a.Ahead, Holder: a.Holder}
	if a.State != store.Waiting {
		s.waiting.remove(c.ID)
	} else {
		s.waiting.add(c, a.Ticket)
		if a.Opens > 0 {
			standing.AskAgain = time.Now().Add(a.Opens)
		}
	}
	if a.State != store.Gone {
		s.listen.Do(func() { s.engine.Listen() }) // a holder too has something to hear: that it was broken
		standing.Until = sent.Add(c.TTL - margin)
	}
	return standing
}

// Leave implements store.Store.
func (s *Store) Leave(ctx context.Context, c store.Claim) error {
	if err := s.check(ctx, c.Name); err != nil {
		return err
	}
	s.waiting.remove(c.ID)
	_, err := call(ctx, s, c.TTL, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.engine.Leave(ctx, &c) })
	return err
}

// Break implements store.Store.
func (s *Store) Break(ctx context.Context, name string, ticket uint64) error {
	if err := s.check(ctx, name); err != nil {
		return err
	}
	_, err := call(ctx, s, askTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.engine.Break(ctx, name, ticket)
	})
	return err
}

// Line implements store.Store.
func (s *Store) Line(ctx context.Context, name string) (store.Line, error) {
	if err := s.check(ctx, name); err != nil {
		return store.Line{}, err
	}
	return call(ctx, s, askTimeout, func(ctx context.Context) (store.Line, error) { return s.engine.Line(ctx, name) })
}

// Names implements store.Store.
func (s *Store) Names(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := s.alive(ctx); err != nil {
			yield("", err)
			return
		}
		names, err := call(ctx, s, askTimeout, func(ctx context.Context) ([]string, error) { return s.engine.Names(ctx, prefix) })
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Notify implements store.Store.
func (s *Store) Notify(fn func(store.ID, store.Standing)) { s.notify.Store(&fn) }

// Abilities implements store.Store.
func (s *Store) Abilities() store.Abilities { return s.able }

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
	if s.closed.Swap(true) {
		return nil
	}
	s.sweeper.Stop()
	s.waiting.close()
	return s.engine.Close()
}

func (s *Store) check(ctx context.Context, name string) error {
	if err := store.CheckName(name); err != nil {
		return err
	}
	return s.alive(ctx)
}

func (s *Store) alive(ctx context.Context) error {
	if s.closed.Load() {
		return store.ErrClosed
	}
	return ctx.Err()
}

// call asks the engine. Without a deadline it gives up after limit (rule 11).
func call[T any](ctx context.Context, s *Store, limit time.Duration, ask func(context.Context) (T, error)) (T, error) {
	bounded := ctx
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	answer, err := ask(bounded)
	switch {
	case err == nil:
		if s.failed.CompareAndSwap(true, false) {
			s.push(store.Everyone, store.Standing{})
		}
		return answer, nil
	case s.closed.Load():
		err = store.ErrClosed
	case ctx.Err() != nil:
		s.failed.Store(true)
		err = ctx.Err()
	case bounded.Err() != nil && errors.Is(err, bounded.Err()):
		s.failed.Store(true)
		err = &store.Fault{Store: s.able.Store, Err: fmt.Errorf("no answer in %v", limit)}
	default:
		if _, ok := errors.AsType[*store.Fault](err); ok {
			s.failed.Store(true)
		}
	}
	var none T
	return none, err
}

// hear takes a push of the engine.
func (s *Store) hear(id store.ID, standing store.Standing) {
	s.waiting.remove(id)
	s.push(id, standing)
}

func (s *Store) push(id store.ID, standing store.Standing) {
	if notify := s.notify.Load(); notify != nil && !s.closed.Load() {
		(*notify)(id, standing)
	}
}

// sweep runs every now and then. That it fails is no news: whoever uses the store is told.
func (s *Store) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	_ = s.engine.Sweep(ctx)
	if !s.closed.Load() {
		s.sweeper.Reset(sweepEvery)
	}
}
