package redlock

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// A requester drives a state machine of package vote, and receives the answers to its requests.
type requester interface {
	answer(r *nodeRequest, a vote.Answer)
}

// A nodeRequest is a request of a machine to one node.
type nodeRequest struct {
	from requester
	vote.Send
}

// An outbox collects requests by node, so that the renewals of many locks are one request to a node.
type outbox [][]nodeRequest

// keepBatch is how many locks are kept by one run of keep.lua, which then takes well under 2 ms.
const keepBatch = 64

// post puts the requests of a machine into the outbox, or sends them if there is none. It never waits, and calls no
// machine: the caller holds the lock of its own.
func (s *Store) post(from requester, sends []vote.Send, out outbox) {
	for _, send := range sends {
		r := nodeRequest{from, send}
		if out != nil {
			out[r.Node] = append(out[r.Node], r)
		} else {
			s.send([]nodeRequest{r})
		}
	}
}

// flush sends the collected requests, and empties the outbox.
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

// A wave is the calls of one Keep that are in progress at the same time. There are never more than fit into one request
// to a node: the timeout begins for all of them when they are sent, and for the last of many it would pass while the
// node, or a busy machine, still works on the first. Claims that wait try in smaller waves, since each is a request of
// its own to every node.
type wave struct {
	calls  []*pendingCall
	silent bool // no call of the last wave had a result: then the rest need not wait for each other
}

// tryBatch is how many claims of one Keep try at once.
const tryBatch = 16

// add adds a call, and reports whether the wave is complete and has to be sent.
func (w *wave) add(p *pendingCall) bool {
	if p == nil || p.kind == vote.Keep && w.silent {
		return false
	}
	w.calls = append(w.calls, p)
	return len(w.calls) == keepBatch || p.kind == vote.Take && len(w.calls) >= tryBatch
}

// wait waits until all calls have ended.
func (w *wave) wait(ctx context.Context) {
	w.silent = true
	for _, p := range w.calls {
		if _, err := p.wait(ctx); err == nil {
			w.silent = false
		}
	}
	w.calls = w.calls[:0]
}

// maxResting is how many senders wait for the next batch.
const maxResting = 16

// send sends a batch to its node as one request, and does not wait. A batch of several requests has only Keeps. After
// Close nothing is sent.
func (s *Store) send(batch []nodeRequest) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.shut {
		return
	}
	s.inFlight.Add(1)
	select {
	case s.batches <- batch:
	default:
		s.frame.Go(func() { s.sender(batch) })
	}
}

// sender delivers a batch, and then waits for the next one: to grow the stack of a new goroutine for each request would
// be a good part of the cost of a lock.
func (s *Store) sender(batch []nodeRequest) {
	for {
		s.carry(batch)
		if s.resting.Add(1) > maxResting {
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

// carry sends a batch to its node, waits for the answers, and passes them to the requesters. A failure of the node is a
// failure of all requests.
func (s *Store) carry(batch []nodeRequest) {
	answers, unsent, err := s.exchange(s.nodes[batch[0].Node], batch)
	for i := range batch {
		a := vote.Answer{Code: vote.Failed, Unsent: unsent, Err: err}
		if err == nil {
			a = answers[i]
		}
		s.observe(batch[i].Node, &a)
		batch[i].from.answer(&batch[i], a)
	}
	if s.inFlight.Add(-1) == 0 && s.frame.Closed() {
		rediswire.Notify(s.idle)
	}
}

// requestLimit is when a request is abandoned, long after its answer would have counted.
const requestLimit = 10 * time.Second

// exchange sends a batch and reads the answers. If err is not nil, unsent reports that the request has set nothing and
// never will: it was not sent, or the node has refused it. Of several requests a node may have carried out a part.
func (s *Store) exchange(n *node, batch []nodeRequest) (answers []vote.Answer, unsent bool, err error) {
	if err := n.beginRequest(s.now(), s.rules.Timeout(s.maxTTL)); err != nil {
		return nil, true, err
	}
	w, err := s.connSoon(n)
	if err != nil {
		n.endRequest(s.now(), false)
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
	n.endRequest(s.now(), err == nil || refused)
	if err != nil {
		return nil, refused && len(batch) == 1, err
	}
	answers, err = readAnswers(reply, len(batch))
	return answers, false, err
}

// connSoon returns a connection, or an error if there is none within the timeout of a request.
func (s *Store) connSoon(n *node) (*connection, error) {
	if w, ok := n.commands.Live(); ok {
		return w, nil
	}
	ctx, cancel := context.WithTimeout(s.frame.Life(), s.rules.Timeout(s.maxTTL))
	defer cancel()
	return n.conn(ctx)
}
