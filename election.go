package holdfast

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// observeEvery is how often Observe reads the queue of a store that does not report changes.
	observeEvery = 250 * time.Millisecond
	// observeRefresh is how often it reads that of a store that does.
	observeRefresh = 5 * time.Second
	// observePause is the least time between two reads.
	observePause = 25 * time.Millisecond
)

// An Election chooses one leader among all clients that campaign, first come, first served. It is a mutex, and shares
// the queue of the Mutex of the same name. A candidate publishes information, such as its address, with the option
// WithLabel.
type Election struct{ lock lock }

// Election returns the election of this name. A wrong name or option is an error of its methods.
func (c *Client) Election(name string, options ...Option) *Election {
	return &Election{c.lock(name, options)}
}

// A Leader is the client that leads.
type Leader struct {
	Info  string // what it published with WithLabel
	Owner Owner
	Token Token
	Since time.Time
	Left  time.Duration // after which time its leadership expires if it is not renewed
}

// Campaign waits until the caller leads. The lease is the leadership. Unlock steps down, and the next candidate leads
// at once. The errors are those of [Mutex.Lock].
func (e *Election) Campaign(ctx context.Context) (*Lease, error) {
	return e.lock.acquire(ctx, &request{op: "campaign", demand: wholeLock, alone: true})
}

// Leader returns the leader. If there is none, the error wraps ErrNotHeld. The other errors are those of
// [Client.Inspect].
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	queue, err := e.lock.inspect(ctx)
	if err != nil {
		return Leader{}, err
	}
	for _, p := range queue.Holders() {
		if !p.Token.Shared() {
			return Leader{Info: p.Owner.Label, Owner: p.Owner, Token: p.Token, Since: p.Since, Left: p.Left}, nil
		}
	}
	return Leader{}, e.lock.client.failed("leader", e.lock.name, ErrNotHeld)
}

// Observe iterates over the leaders: the current one, and each later one, with the zero Leader while there is none. It
// ends with ctx, and after ErrClosed. A store that can push changes is read when something has changed, any other four
// times a second; a leader that leads for less than that may be missed. A failure of the store is reported once, as an
// error, and Observe continues: break out of the loop to stop at an error.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		c := e.lock.client
		if err := e.lock.usable(ctx); err != nil {
			yield(Leader{}, c.failed("observe", e.lock.name, err))
			return
		}
		news := c.subscribe(ctx, e.lock.name, e.lock.name)
		defer news.end()
		seen, failing, first := Token(0), false, true
		for ; ctx.Err() == nil; news.observe(ctx, failing) {
			news.take()
			leader, err := e.Leader(ctx)
			if errors.Is(err, ErrNotHeld) {
				leader, err = Leader{}, nil
			}
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, ErrClosed):
				yield(Leader{}, err)
				return
			case err != nil:
				if !failing && !yield(Leader{}, err) {
					return
				}
				failing = true
			case first || failing || leader.Token != seen:
				if !yield(leader, nil) {
					return
				}
				seen, failing, first = leader.Token, false, false
			}
		}
	}
}

// observe waits until the queue is to be read again.
func (s *subscription) observe(ctx context.Context, failing bool) {
	s.client.pause(ctx, observePause)
	s.mu.Lock()
	pushes, changed := s.pushes, s.all || len(s.names) > 0
	s.mu.Unlock()
	switch {
	case failing || !pushes:
		s.client.pause(ctx, observeEvery-observePause)
	case !changed:
		s.await(ctx, observeRefresh)
	}
}

// Run campaigns, and calls fn when the caller leads. The context that fn receives ends when the leadership is lost, and
// with ctx. After a loss, or if the store cannot be reached, Run campaigns again. If fn returns while the caller leads,
// Run steps down and returns fn's error. It returns in any case when ctx ends, and at an error of the store that does
// not go away by waiting (a final *Fault).
func (e *Election) Run(ctx context.Context, fn func(ctx context.Context) error) error {
	if fn == nil {
		return e.lock.client.failed("campaign", e.lock.name, errNoFunction)
	}
	for fails := int32(1); ; fails++ {
		l, err := e.lock.acquire(ctx, &request{op: "campaign", demand: wholeLock, alone: true, bound: true})
		if err == nil {
			led := time.Now()
			if err, lost := callUnder(ctx, l, fn); !errors.Is(lost, ErrLost) || ctx.Err() != nil {
				return withLoss(err, lost)
			}
			if time.Since(led) > observeEvery {
				fails = 0
			}
		} else if !temporary(err) || ctx.Err() != nil {
			return err
		}
		// A store that is not reachable, or loses its grants, must not be called in a hot loop.
		e.lock.client.pause(ctx, backoff(time.Minute, max(fails, 1)))
	}
}

// temporary reports whether a campaign that failed with err may succeed later.
func temporary(err error) bool {
	_, fault := errors.AsType[*Fault](err)
	return (fault || errors.Is(err, ErrLost)) && !store.Final(err)
}
