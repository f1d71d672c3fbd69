package redlock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// A machine is of package vote, and gets the answers to its requests.
type machine interface {
	answer(r *nodeRequest, a vote.Answer)
}

// A nodeRequest is a request of a machine to one node.
type nodeRequest struct {
	from machine
	vote.Send
}

// An outbox collects requests by node, so that the renewals of many locks go to a node as one.
type outbox [][]nodeRequest

// keepBatch is how many locks are kept by one run of keep.lua, which then takes well under 2 ms.
const keepBatch = 64

// post puts the requests of a machine into the outbox, or sends them if there is none. It never waits and calls no
// machine: the caller has locked its own.
func (s *Store) post(from machine, sends []vote.Send, out outbox) {
	for _, send := range sends {
		r := nodeRequest{from, send}
		if out != nil {
			out[r.Node] = append(out[r.Node], r)
		} else {
			s.send([]nodeRequest{r})
		}
	}
}

// flush sends what was collected, and empties the outbox.
func (s *Store) flush(out outbox) {
	for _, requests := range out {
		var keeps []nodeRequest
		for _, r := range requests {
			if r.Request.Op != vote.Keep {
				s.send([]nodeRequest{r})
			} else if keeps = append(keeps, r); len(keeps) == keepBatch {
				s.send(keeps)
				keeps = nil
			}
		}
		if len(keeps) > 0 {
			s.send(keeps)
		}
	}
	clear(out)
}

// A wave is the calls of one Keep that are under way at the same time. There are never more than go to a node as one
// request: a node's time begins for all of them when they are sent, and would be over for the last of many while the
// node, or a busy machine, is at work for the first. Claims that wait try in smaller waves: each is a request of its
// own to every node.
type wave struct {
	calls  []*pending
	silent bool // none of a wave was answered: then the rest need not wait for each other
}

// tryBatch is how many claims of one Keep try at once.
const tryBatch = 16

// add adds a call, and reports whether those so far have to be sent and waited for.
func (w *wave) add(p *pending) bool {
	if p == nil || p.kind == vote.Keep && w.silent {
		return false
	}
	w.calls = append(w.calls, p)
	return len(w.calls) == keepBatch || p.kind == vote.Take && len(w.calls) >= tryBatch
}

// wait waits until they are over.
func (w *wave) wait(ctx context.Context) {
	w.silent = true
	for _, p := range w.calls {
		if _, err := p.wait(ctx); err == nil {
			w.silent = false
		}
	}
	w.calls = w.calls[:0]
}

// mostResting is how many senders wait for the next batch.
const mostResting = 16

// send sends a batch to its node as one request, and does not wait. Several are all to keep. After Close nothing is
// sent.
func (s *Store) send(batch []nodeRequest) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.shut {
		return
	}
	s.under.Add(1)
	select {
	case s.batches <- batch:
	default:
		s.frame.Go(func() { s.sender(batch) })
	}
}

// sender carries a batch, and then waits for the next: to grow the stack of a new goroutine for each request would be a
// good part of what a lock costs.
func (s *Store) sender(batch []nodeRequest) {
	for {
		s.carry(batch)
		if s.resting.Add(1) > mostResting {
			s.resting.Add(-1)
			return
		}
		select {
		case batch = <-s.batches:
			s.resting.Add(-1)
		case <-s.frame.Life().Done():
			return
		}
	}
}

// carry sends a batch to its node, waits for the answers, and gives them to the machines. A node that fails has failed
// for all of them.
func (s *Store) carry(batch []nodeRequest) {
	answers, unsent, err := s.exchange(s.nodes[batch[0].Node], batch)
	for i := range batch {
		a := vote.Answer{Code: vote.Failed, Unsent: unsent, Err: err}
		if err == nil {
			a = answers[i]
		}
		s.notice(batch[i].Node, &a)
		batch[i].from.answer(&batch[i], a)
	}
	if s.under.Add(-1) == 0 && s.frame.Closed() {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
}

// requestLimit is when a request is given up, long after it counted for anything.
const requestLimit = 10 * time.Second

// exchange sends a batch and reads the answers. Unsent says of an error that the request has set nothing, and never
// will: it was not sent, or the node has refused it. A node may have done a part of several.
func (s *Store) exchange(n *node, batch []nodeRequest) (answers []vote.Answer, unsent bool, err error) {
	if err := n.enter(s.now(), s.rules.Timeout(s.maxTTL)); err != nil {
		return nil, true, err
	}
	w, err := s.wireSoon(n)
	if err != nil {
		n.leave(s.now(), false)
		return nil, true, err
	}
	var c call
	if len(batch) == 1 {
		c = newCall(&batch[0].Request, w.Info.Run())
	} else {
		requests := make([]*vote.Request, len(batch))
		for i := range batch {
			requests[i] = &batch[i].Request
		}
		c = newKeep(requests, w.Info.Run())
	}
	ctx, done := s.frame.Shared(context.Background(), requestLimit)
	defer done()
	reply, err := run(ctx, w, c)
	_, refused := rediswire.IsRefusal(err)
	n.leave(s.now(), err == nil || refused)
	if err != nil {
		return nil, refused && len(batch) == 1, err
	}
	answers, err = readAnswers(reply, len(batch))
	return answers, false, err
}

// wireSoon returns a connection, or an error if there is none in the time that a node has to answer.
func (s *Store) wireSoon(n *node) (*wire, error) {
	if w, ok := n.commands.Live(); ok {
		return w, nil
	}
	ctx, cancel := context.WithTimeout(s.frame.Life(), s.rules.Timeout(s.maxTTL))
	defer cancel()
	return n.wire(ctx)
}
