package rediswire

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// A Wire is one connection to the server, shared by all calls: what is asked at the same time is sent together.
//
// It is a dedicated connection of rueidis and not the client's own pipeline, for three reasons. A dedicated connection
// does not reconnect by itself, so that what is known of it (which run of the server it leads to) stays true. Whoever
// calls while a new one is being made can give up when his context is done; in the pipeline he waits for the dial of
// somebody else. And its end is noticed at once, also when nobody calls.
//
// No command is ever repeated by rueidis: it only does so to what only reads. Scripts could be, as they know a claim by
// its ID, but whether to try again is for the caller to say.
type Wire struct {
	Client rueidis.DedicatedClient
	Info   Info // what the server said when the connection was made

	// rueidis has room for a number of requests that were not answered yet. Where there is none it waits and does not
	// look at the context. So we wait here, before it. A request that its caller has abandoned still takes its room,
	// until one that was sent later has been answered: see catchUp.
	room      chan struct{}
	answered  atomic.Int64  // how many were answered in time
	abandoned atomic.Int64  // how many were abandoned so far
	returned  atomic.Int64  // how many of them were answered after all
	behind    chan struct{} // holds a token when requests were abandoned since catchUp began

	once sync.Once
	life context.Context // done when the connection has ended
	kill context.CancelFunc
	why  error // set before life is done
}

// roomOnWire is the room of a wire. rueidis has 1024 places in a ring unless it was told otherwise, some of which it
// needs itself.
const roomOnWire = 256

// Why a wire has ended.
var (
	ErrCut      = errors.New("the connection ended")
	ErrNoAnswer = errors.New("the server does not answer; connecting again")
	ErrReplica  = errors.New("it is a replica, which can only be read; name the master")
)

// Connect takes a connection of its own from the client, and asks the server what it is. It may take as long as a dial.
// Tasks is told of the wire's goroutine.
func Connect(tasks *sync.WaitGroup, client rueidis.Client, hooks rueidis.PubSubHooks) (*Wire, error) {
	conn, _ := client.Dedicate()
	w := &Wire{Client: conn, room: make(chan struct{}, roomOnWire), behind: make(chan struct{}, 1)}
	w.life, w.kill = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), DialTimeout)
	defer cancel()
	var err error
	if w.Info, err = askInfo(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	// With hooks, rueidis reads in the background from now on: a call ends with its context, and the channel with the
	// connection.
	ended := conn.SetPubSubHooks(hooks)
	tasks.Go(func() {
		defer w.Client.Close()
		for {
			select {
			case why := <-ended:
				w.End(why)
			case <-w.life.Done():
				return
			case <-w.behind:
				w.catchUp()
			}
		}
	})
	return w, nil
}

// catchUp brings back the room of requests that were abandoned, also when nobody sends another. However many they
// are, the connection goes on: others use it, and the server may just be busy. It ends if the server answers nothing
// for as long as it may be silent.
func (w *Wire) catchUp() {
	before, answered := w.abandoned.Load(), w.answered.Load()
	ctx, cancel := context.WithTimeout(w.life, SilenceWithin)
	defer cancel()
	err := w.Client.Do(ctx, w.Client.B().Ping().Build()).NonRedisError()
	switch {
	case err == nil:
		w.caughtUp(before)
	case ctx.Err() != nil && w.answered.Load() != answered:
		w.fallBehind() // it is slow, and not silent
	case ctx.Err() != nil:
		w.End(ErrNoAnswer)
	default:
		w.End(err)
	}
}

// Dead is closed when the connection has ended.
func (w *Wire) Dead() <-chan struct{} { return w.life.Done() }

// Why says why it has ended, once it has.
func (w *Wire) Why() error { return w.why }

// End ends the connection and notes why. It does not wait for it: the wire's own goroutine closes it, so that a call that
// fails while the store is being closed starts nothing that Close does not know of.
func (w *Wire) End(why error) {
	w.once.Do(func() {
		if w.why = why; why == nil {
			w.why = ErrCut
		}
		w.kill()
	})
}

// Do sends a command and waits for its answer, or until ctx is done.
func (w *Wire) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	before, err := w.enter(ctx)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	answer := w.Client.Do(ctx, command)
	w.leave(before, answer)
	return answer
}

// DoAll sends several commands at once.
func (w *Wire) DoAll(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	before, err := w.enter(ctx)
	if err != nil {
		return ErrorResults(len(commands), err)
	}
	answers := w.Client.DoMulti(ctx, commands...)
	w.leave(before, answers[len(answers)-1])
	return answers
}

// ErrorResults are n answers that all say this.
func ErrorResults(n int, err error) []rueidis.RedisResult {
	answers := make([]rueidis.RedisResult, n)
	for i := range answers {
		answers[i] = rueidis.NewErrorResult(err)
	}
	return answers
}

// enter takes room for a request. It returns how many were abandoned before it.
func (w *Wire) enter(ctx context.Context) (before int64, err error) {
	select {
	case w.room <- struct{}{}:
	default:
		select {
		case w.room <- struct{}{}:
		case <-w.life.Done():
			return 0, w.why
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return w.abandoned.Load(), nil
}

// leave gives the room back, if the answer came.
func (w *Wire) leave(before int64, answer rueidis.RedisResult) {
	if err := answer.NonRedisError(); err != nil && !rueidis.IsRedisNil(err) {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			w.End(err) // with RESP2, what has hooks is another connection than this one
			return
		}
		w.abandoned.Add(1)
		w.fallBehind()
		return
	}
	w.answered.Add(1)
	w.Heed(answer)
	<-w.room
	w.caughtUp(before)
}

// fallBehind sees to it that catchUp runs.
func (w *Wire) fallBehind() {
	select {
	case w.behind <- struct{}{}:
	default:
	}
}

// caughtUp gives back the room of requests that were abandoned before one was sent that is answered now: answers come
// in order.
func (w *Wire) caughtUp(before int64) {
	for {
		returned := w.returned.Load()
		if before <= returned {
			return
		}
		if w.returned.CompareAndSwap(returned, before) {
			for range before - returned {
				<-w.room
			}
			return
		}
	}
}

// Heed looks for an answer that only a replica gives. The address may lead to the new master by now.
func (w *Wire) Heed(answer rueidis.RedisResult) {
	if err := answer.Error(); err != nil && strings.Contains(err.Error(), "READONLY") {
		w.End(ErrReplica)
	}
}
