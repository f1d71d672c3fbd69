package rediswire

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// A dedicated connection is taken from a client of rueidis'. It reads in the background, and so a call ends with its
// context.
//
// It is not the client's own pipeline: that reconnects by itself, so that nothing would be known of it, and callers
// would wait for the dial of another without looking at their contexts.
type dedicated struct {
	client     rueidis.DedicatedClient
	connection *Connection

	// rueidis has room for a number of requests that were not answered yet. Where there is none it waits and does not
	// look at the context. So we wait here, before it. A request that its caller has abandoned still takes its room,
	// until one that was sent later has been answered: see catchUp.
	room      chan struct{}
	answered  atomic.Int64  // how many were answered in time
	abandoned atomic.Int64  // how many were abandoned so far
	returned  atomic.Int64  // how many of them were answered after all
	behind    chan struct{} // holds a token when requests were abandoned since catchUp began
}

// roomOnWire is how many requests may be under way on a connection. rueidis has a ring of 1024, some of which it needs
// itself.
const roomOnWire = 256

func newDedicated(client rueidis.DedicatedClient, w *Connection) *dedicated {
	return &dedicated{
		client: client, connection: w, room: make(chan struct{}, roomOnWire), behind: make(chan struct{}, 1),
	}
}

// listen has rueidis read in the background from now on. The hooks are called with messages.
func (d *dedicated) listen(tasks *sync.WaitGroup, hooks rueidis.PubSubHooks) {
	ended := d.client.SetPubSubHooks(hooks)
	tasks.Go(func() {
		defer d.client.Close()
		for {
			select {
			case why := <-ended:
				d.connection.End(why)
			case <-d.connection.Dead():
				return
			case <-d.behind:
				d.catchUp()
			}
		}
	})
}

// end does nothing: the goroutine of listen closes the connection.
func (d *dedicated) end(error) {}

// catchUp regains the room of requests that were abandoned, also when no other is sent. However many they are, the
// connection goes on: others use it, and the server may just be busy. It ends if the server replies to nothing for as
// long as it may be silent.
func (d *dedicated) catchUp() {
	before, answered := d.abandoned.Load(), d.answered.Load()
	ctx, cancel := context.WithTimeout(d.connection.life, SilenceWithin)
	defer cancel()
	err := d.client.Do(ctx, d.client.B().Ping().Build()).NonRedisError()
	switch {
	case err == nil:
		d.caughtUp(before)
	case ctx.Err() != nil && d.answered.Load() != answered:
		Notify(d.behind) // it is slow, and not silent
	case ctx.Err() != nil:
		d.connection.End(ErrNoAnswer)
	default:
		d.connection.End(err)
	}
}

func (d *dedicated) run(ctx context.Context, r *request) Reply { return d.do(ctx, r)[0] }

func (d *dedicated) do(ctx context.Context, r *request) []Reply {
	before, err := d.enter(ctx)
	if err != nil {
		return Failures(r.count(), err)
	}
	commands := r.build(d.client.B())
	var replies []Reply
	if len(commands) == 1 {
		replies = FromRueidis(d.client.Do(ctx, commands[0]))
	} else {
		replies = FromRueidis(d.client.DoMulti(ctx, commands...)...)
	}
	d.leave(before, &replies[len(replies)-1])
	return replies
}

// enter takes room for a request. It returns how many were abandoned before it.
func (d *dedicated) enter(ctx context.Context) (before int64, err error) {
	select {
	case d.room <- struct{}{}:
	default:
		select {
		case d.room <- struct{}{}:
		case <-d.connection.Dead():
			return 0, d.connection.why
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return d.abandoned.Load(), nil
}

// leave returns the room, if the last reply came.
func (d *dedicated) leave(before int64, last *Reply) {
	if err := last.Failure(); err != nil {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			d.connection.End(err) // with RESP2, what has hooks is another connection than this one
			return
		}
		d.abandoned.Add(1)
		Notify(d.behind)
		return
	}
	d.answered.Add(1)
	<-d.room
	d.caughtUp(before)
}

// caughtUp returns the room of requests that were abandoned before one was sent that is replied to now: replies come in
// order.
func (d *dedicated) caughtUp(before int64) {
	for {
		returned := d.returned.Load()
		if before <= returned {
			return
		}
		if d.returned.CompareAndSwap(returned, before) {
			for range before - returned {
				<-d.room
			}
			return
		}
	}
}
