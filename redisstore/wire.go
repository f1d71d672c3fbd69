package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// A wire is one connection to the server, shared by all calls: what is asked at the same time is sent together.
//
// It is a dedicated connection of rueidis and not the client's own pipeline, for three reasons. A dedicated connection
// does not reconnect by itself, so that what is known of it (which run of the server it leads to) stays true. Whoever
// calls while a new one is being made can give up when his context is done; in the pipeline he waits for the dial of
// somebody else. And its end is noticed at once, also when nobody calls.
//
// No command is ever repeated by rueidis: it only does so to what only reads. Our scripts could be, as they know a claim
// by its ID, but whether to try again is for the caller to say.
type wire struct {
	client rueidis.DedicatedClient
	run    string // which run of the server it leads to, as the scripts want it: "1 RUN "
	tasks  *sync.WaitGroup
	slots  *[slotCount / 64]atomic.Uint64 // in a cluster: where it has arrived
	joins  *[slotCount]atomic.Int64       // in a cluster: when a slot was last joined in, after met
	topics *topics                        // of a connection for pushes
	rounds *rounds                        // for what replicas must acknowledge; nil: what is asked is sent at once

	met  time.Time // when the server told its time, on this machine's clock
	told time.Time // what it told

	// rueidis has room for a number of requests that were not answered yet. Where there is none it waits and does not
	// look at the context. So we wait here, before it. A request that its caller has given up still takes its room,
	// until one that was sent later has been answered.
	room      chan struct{}
	abandoned atomic.Int64 // how many were given up so far
	returned  atomic.Int64 // how many of them were answered after all

	once sync.Once
	dead chan struct{} // closed when the connection has ended
	why  error         // set before dead is closed
}

// The room of a wire. rueidis has 1024 places in a ring unless it was told otherwise, some of which it needs itself.
const (
	roomOnWire   = 256
	mostAbandons = roomOnWire / 2 // a server that leaves so many unanswered is better asked on a new connection
)

var (
	errCut      = errors.New("the connection ended")
	errNoAnswer = errors.New("the server does not answer; connecting again")
)

// newWire takes a connection of its own from the client, and asks the server what it is. It may take as long as a dial.
func (p *plug) newWire(client rueidis.Client, hooks rueidis.PubSubHooks) (*wire, *Server, error) {
	conn, _ := client.Dedicate()
	w := &wire{client: conn, tasks: &p.tasks, slots: &[slotCount / 64]atomic.Uint64{}, room: make(chan struct{}, roomOnWire), dead: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	server, err := askServer(ctx, conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	w.run = server.runText()
	w.met = time.Now()
	w.told = w.met.Add(server.Ahead)
	// With hooks, rueidis reads in the background from now on: a call ends with its context, and the channel with the
	// connection.
	ended := conn.SetPubSubHooks(hooks)
	w.tasks.Go(func() {
		select {
		case why := <-ended:
			w.end(why)
		case <-w.dead:
		}
		w.client.Close()
	})
	return w, server, nil
}

// serverMillis is the server's time as far as can be told from here. It is for people only.
func (w *wire) serverMillis() int64 { return w.told.Add(time.Since(w.met)).UnixMilli() }

// end ends the connection and notes why. It does not wait for it: the wire's own goroutine closes it, so that a call that
// fails while the store is being closed starts nothing that Close does not know of.
func (w *wire) end(why error) {
	w.once.Do(func() {
		if w.why = why; why == nil {
			w.why = errCut
		}
		close(w.dead)
	})
}

// do sends a command and waits for its answer, or until ctx is done.
func (w *wire) do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if w.rounds != nil {
		return w.rounds.do(ctx, command)[0]
	}
	before, err := w.enter(ctx)
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	answer := w.client.Do(ctx, command)
	w.leave(before, answer)
	return answer
}

// doAll sends several commands at once.
func (w *wire) doAll(ctx context.Context, commands []rueidis.Completed) []rueidis.RedisResult {
	if w.rounds != nil {
		return w.rounds.do(ctx, commands...)
	}
	before, err := w.enter(ctx)
	if err != nil {
		return errorResults(len(commands), err)
	}
	answers := w.client.DoMulti(ctx, commands...)
	w.leave(before, answers[len(answers)-1])
	return answers
}

// enter takes room for a request. It returns how many were given up before it.
func (w *wire) enter(ctx context.Context) (before int64, err error) {
	select {
	case w.room <- struct{}{}:
	default:
		select {
		case w.room <- struct{}{}:
		case <-w.dead:
			return 0, w.why
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return w.abandoned.Load(), nil
}

// leave gives the room back, if the answer came. Answers come in order: with it have come those of all requests that
// were given up before this one was sent.
func (w *wire) leave(before int64, answer rueidis.RedisResult) {
	if err := answer.NonRedisError(); err != nil && !rueidis.IsRedisNil(err) {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			w.end(err) // with RESP2, what has hooks is another connection than this one
			return
		}
		if w.abandoned.Add(1)-w.returned.Load() > mostAbandons {
			w.end(errNoAnswer)
		}
		return
	}
	w.heed(answer)
	<-w.room
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

// arrived notes that the mark of a slot has been looked at over this connection.
func (w *wire) arrived(slot int) { w.slots[slot/64].Or(1 << (slot % 64)) }

func (w *wire) hasArrived(slot int) bool { return w.slots[slot/64].Load()&(1<<(slot%64)) != 0 }

// depart notes that the node does not have the slot any more. If it comes back, its mark has to be looked at anew.
func (w *wire) depart(slot int) { w.slots[slot/64].And(^uint64(1 << (slot % 64))) }

// shortestReign is less than it takes a node to become a replica, and the master again without what its own master knew.
const shortestReign = time.Second

// pace says whether the node has kept the slot without a break since it was last joined in: "calm" if that was a moment ago,
// otherwise "idle". A connection outlives what becomes of its node.
func (w *wire) pace(slot int, now time.Time) string {
	if now.Sub(w.met)-time.Duration(w.joins[slot].Load()) < shortestReign {
		return "calm"
	}
	return "idle"
}

// joinedIn notes that a Join was sent then, and answered.
func (w *wire) joinedIn(slot int, sent time.Time) { w.joins[slot].Store(int64(sent.Sub(w.met))) }

// heed looks for an answer that only a replica gives. The address may lead to the new master by now.
func (w *wire) heed(answer rueidis.RedisResult) {
	if err := answer.Error(); err != nil && strings.Contains(err.Error(), "READONLY") {
		w.end(errReplica)
	}
}

// A plug has one wire at a time, and gets another when it broke.
type plug struct {
	connect func() (*wire, error)
	made    func(*wire) // is told of each new one

	current atomic.Pointer[wire]

	mu     sync.Mutex
	dial   *dial // under way; nil: none
	closed bool

	tasks sync.WaitGroup // its goroutines, and those of its wires
}

// A dial is an attempt that all wait for who need a wire. It ends by itself: nobody's context can end it for others.
type dial struct {
	done chan struct{}
	wire *wire
	err  error
}

// dialTimeout bounds an attempt to connect.
const dialTimeout = 5 * time.Second

var errUnplugged = errors.New("the node is not in use any more")

// get gives a wire that was not known to be dead a moment ago.
func (p *plug) get(ctx context.Context) (*wire, error) {
	if w := p.current.Load(); w != nil {
		select {
		case <-w.dead:
		default:
			return w, nil
		}
	}
	d := p.dialing()
	select {
	case <-d.done:
		return d.wire, d.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dialing joins the attempt that is under way, or starts one.
func (p *plug) dialing() *dial {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dial != nil {
		return p.dial
	}
	d := &dial{done: make(chan struct{})}
	if p.closed {
		d.err = errUnplugged
		close(d.done)
		return d
	}
	p.dial = d
	p.tasks.Go(func() {
		w, err := p.connect()
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case p.closed: // who waited knows already
			if w != nil {
				w.end(errUnplugged)
			}
			return
		case w != nil:
			p.current.Store(w)
			p.made(w)
		}
		d.wire, d.err = w, err
		p.dial = nil
		close(d.done)
	})
	return d
}

// unplug ends the wire, and lets nobody make another. Who waits for one waits no longer.
func (p *plug) unplug() {
	p.mu.Lock()
	p.closed = true
	if p.dial != nil {
		p.dial.err = errUnplugged
		close(p.dial.done)
		p.dial = nil
	}
	w := p.current.Load()
	p.mu.Unlock()
	if w != nil {
		w.end(errUnplugged)
	}
}
