package holdfast

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// observeEvery is how often Observe looks.
const observeEvery = 250 * time.Millisecond

// An Election chooses one leader among all who campaign, first come, first served. It is a mutex by nature, and
// shares the line of the Mutex of the same name. What the leader wants others to know, such as its address, it
// sets with the option Label.
type Election struct{ lock lock }

// Election is the election of this name. A wrong name or option is an error when it is used.
func (c *Client) Election(name string, options ...Option) *Election {
	return &Election{c.lock(name, options)}
}

// A Leader is who leads.
type Leader struct {
	Info  string // what it set with Label
	Owner Owner
	Token Token
	Since time.Time
	Left  time.Duration // how long it still leads if it is not heard of again
}

// Campaign waits until it leads. The lease is the leadership; Unlock steps down, and the next takes over at once.
func (e *Election) Campaign(ctx context.Context) (*Lease, error) {
	return e.lock.acquire(ctx, &request{op: "campaign", demand: wholeLock, alone: true})
}

// Leader says who leads. If nobody does, the error is ErrNotHeld.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	line, err := e.lock.inspect(ctx)
	if err != nil {
		return Leader{}, err
	}
	for _, p := range line.Holders() {
		if !p.Token.Shared() {
			return Leader{Info: p.Owner.Label, Owner: p.Owner, Token: p.Token, Since: p.Since, Left: p.Left}, nil
		}
	}
	return Leader{}, e.lock.client.failed("leader", e.lock.name, ErrNotHeld)
}

// Observe goes through the leaders: the one of now, and each change after it, with the zero Leader while nobody
// leads. It ends with ctx. A failure of the store is reported once, as an error, and then it goes on: whoever wants
// to stop breaks off. One who leads for less than a moment may go unseen.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		if err := e.lock.usable(ctx); err != nil {
			yield(Leader{}, e.lock.client.failed("observe", e.lock.name, err))
			return
		}
		seen, ill, first := Token(0), false, true
		for ctx.Err() == nil {
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
				if !ill && !yield(Leader{}, err) {
					return
				}
				ill = true
			case first || ill || leader.Token != seen:
				if !yield(leader, nil) {
					return
				}
				seen, ill, first = leader.Token, false, false
			}
			e.lock.client.pause(ctx, observeEvery)
		}
	}
}

// Run campaigns, and runs fn while it leads. The context that fn is given ends when the leadership is lost, or ctx.
// After a loss, or when the store cannot be reached, it campaigns again. When fn returns while it leads, Run steps
// down and returns fn's error. It ends with ctx in any case, and with an error of the store that no waiting mends.
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
		} else if !mends(err) || ctx.Err() != nil {
			return err
		}
		// A store that is out of reach, or loses what it grants, must not be asked in a hot loop.
		e.lock.client.pause(ctx, backoff(time.Minute, max(fails, 1)))
	}
}

// mends says whether a campaign that failed so may succeed later.
func mends(err error) bool {
	_, fault := errors.AsType[*Fault](err)
	return (fault || errors.Is(err, ErrLost)) && !store.Final(err)
}
