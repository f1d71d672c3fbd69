package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
)

// replicaSettings has the number of replicas that must acknowledge what a Join or Keep has written before it counts.
// Redis itself acknowledges before any replica does.
type replicaSettings struct {
	replicas int           // how many; 0: none is waited for
	patience time.Duration // how long they may take
}

// The bounds of wait-timeout, and its default in a URL.
const (
	defaultPatience = time.Second
	mostPatience    = time.Minute
)

// check returns an error if the number or the timeout is out of bounds.
func (r replicaSettings) check() error {
	if r.replicas < 0 || r.replicas > 0 && (r.patience < time.Millisecond || r.patience > mostPatience) {
		return fmt.Errorf("holdfast: replicas are waited for with a number and a time of a millisecond to %v",
			mostPatience)
	}
	return nil
}

// An unackedError reports that too few replicas have acknowledged a write.
type unackedError struct {
	got  int64
	want replicaSettings
}

func (e *unackedError) Error() string {
	return fmt.Sprintf("%d of %d replicas have acknowledged within %v, so that it does not count", e.got,
		e.want.replicas, e.want.patience)
}

// rounds sends requests over a connection in rounds: all requests that arrived during the last round, followed by one
// WAIT. A WAIT delays everything after it on the same connection. So many requests share one WAIT, and the connection
// is used for nothing else.
type rounds struct {
	connection *connection
	want       replicaSettings

	mu   sync.Mutex
	next *round        // what the next one will send; nil: nothing
	due  chan struct{} // holds a token when there is a next one
}

// newRounds makes the connection send in rounds from now on.
func (w *connection) newRounds(want replicaSettings, tasks *sync.WaitGroup) {
	w.rounds = &rounds{connection: w, want: want, due: make(chan struct{}, 1)}
	tasks.Go(w.rounds.run)
}

// A round is a set of requests that are sent together.
type round struct {
	asked []*question
	short *unackedError // why they do not count
	done  chan struct{}
}

// A question has the commands of one call in a round, and their replies.
type question struct {
	ctx      context.Context // of who asks: what nobody waits for any more is not sent
	commands []rueidis.Completed
	answers  []rediswire.Reply
}

// A receipt sends the commands of one try in rounds, and notes whether too few replicas have acknowledged them.
type receipt struct {
	*rounds
	short *unackedError
}

// forTry returns the Doer for the commands of a try and, if replicas must acknowledge them, its receipt. Commands on
// such a connection must use the receipt: a command beside the rounds would be delayed by a WAIT.
func (w *connection) forTry() (rediswire.Doer, *receipt) {
	if w.rounds == nil {
		return w, nil
	}
	r := &receipt{rounds: w.rounds}
	return r, r
}

// Do implements rediswire.Doer.
func (r *receipt) Do(ctx context.Context, command rueidis.Completed) rediswire.Reply {
	return r.DoAll(ctx, []rueidis.Completed{command})[0]
}

// B implements rediswire.Doer.
func (r *receipt) B() rueidis.Builder { return r.connection.B() }

// DoAll implements rediswire.Doer: it sends commands with the next round, and waits for their replies. It returns
// errors if ctx or the connection ends first.
func (r *receipt) DoAll(ctx context.Context, commands []rueidis.Completed) []rediswire.Reply {
	r.mu.Lock()
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	mine, own := r.next, &question{ctx: ctx, commands: commands}
	mine.asked = append(mine.asked, own)
	r.mu.Unlock()
	rediswire.Notify(r.due)
	select {
	case <-mine.done:
		if mine.short != nil {
			r.short = mine.short
		}
		return own.answers
	case <-r.connection.Dead():
		return rediswire.Failures(len(commands), r.connection.Why())
	case <-ctx.Done():
		return rediswire.Failures(len(commands), ctx.Err())
	}
}

// run sends rounds until the connection ends.
func (r *rounds) run() {
	for {
		select {
		case <-r.due:
		case <-r.connection.Dead():
			return
		}
		r.mu.Lock()
		current := r.next
		r.next = nil
		r.mu.Unlock()
		if current != nil {
			r.send(current)
			close(current.done)
		}
	}
}

// send sends one round, and waits until the replicas have acknowledged it. Requests whose context is done are not sent.
func (r *rounds) send(now *round) {
	ctx, cancel := context.WithTimeout(context.Background(), r.want.patience+rediswire.SilenceWithin)
	defer cancel()
	var commands []rueidis.Completed
	for _, q := range now.asked {
		if err := q.ctx.Err(); err != nil { // its Leave and the tombstone of that may be over when it lands
			q.answers = rediswire.Failures(len(q.commands), err)
			continue
		}
		commands = append(commands, q.commands...)
	}
	n := len(commands)
	if n == 0 {
		return
	}
	wait := r.connection.B().Wait().Numreplicas(int64(r.want.replicas)).Timeout(r.want.patience.Milliseconds()).Build()
	answers := r.connection.DoAll(ctx, append(commands, wait))
	got, err := answers[n].Int64()
	for i, answer := range answers[:n] {
		if err != nil && answer.Error() == nil { // what it was refused with tells more, such as where the slot is now
			answers[i] = rediswire.NewFailure(err)
		}
	}
	rest := answers[:n]
	for _, q := range now.asked {
		if q.answers == nil {
			q.answers, rest = rest[:len(q.commands)], rest[len(q.commands):]
		}
	}
	switch {
	case err != nil:
		r.connection.End(err) // who refuses to WAIT is a master no more
	case got < int64(r.want.replicas):
		now.short = &unackedError{got, r.want}
	}
}
