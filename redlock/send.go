package redlock

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
)

// A machine is of package vote, and gets the answers to what it sends.
type machine interface {
	answer(node int, e *errand, a vote.Answer)
}

// An errand is a request of a machine to one node.
type errand struct {
	from    machine
	seq     uint64
	request vote.Request
}

// An outbox collects what is to be sent, so that the renewals of many locks go to a node as one request.
type outbox [][]errand

// keepBatch is how many locks are kept by one run of keep.lua, which then takes well under 2 ms.
const keepBatch = 64

// post puts what a machine wants to send into the outbox, or sends it if there is none. It never waits, and calls no
// machine: whoever posts has locked his own.
func (s *Store) post(from machine, sends []vote.Send, out outbox) {
	for i := range sends {
		e := errand{from, sends[i].Seq, sends[i].Request}
		if out != nil {
			out[sends[i].Node] = append(out[sends[i].Node], e)
		} else {
			s.send(s.nodes[sends[i].Node], []errand{e})
		}
	}
}

// flush sends what was collected.
func (s *Store) flush(out outbox) {
	for i, errands := range out {
		var keeps []errand
		for _, e := range errands {
			if e.request.Op != vote.Keep {
				s.send(s.nodes[i], []errand{e})
				continue
			}
			if keeps = append(keeps, e); len(keeps) == keepBatch {
				s.send(s.nodes[i], keeps)
				keeps = nil
			}
		}
		if len(keeps) > 0 {
			s.send(s.nodes[i], keeps)
		}
	}
}

// renewals are those of one Keep that were begun and may be under way. There are never more than go to a node as one
// request: the time that a node has begins for all of them when they are sent, and would be over for the last of many while
// the node, or a busy machine, is at work for the first.
//
// Tries of claims that wait go in smaller waves: each is a request of its own to every node.
type renewals struct {
	calls  []*pending
	silent bool // none of a number was answered: then the rest need not wait for each other
}

// tryBatch is how many claims of one Keep try at once.
const tryBatch = 16

// add adds a call, and says whether those so far are to be sent and waited for.
func (r *renewals) add(p *pending) bool {
	if p == nil || p.kind == vote.Keep && r.silent {
		return false
	}
	r.calls = append(r.calls, p)
	return len(r.calls) == keepBatch || p.kind == vote.Take && len(r.calls) >= tryBatch
}

// wait waits until they are over.
func (r *renewals) wait(ctx context.Context) {
	r.silent = true
	for _, p := range r.calls {
		if _, err := p.wait(ctx); err == nil {
			r.silent = false
		}
	}
	r.calls = r.calls[:0]
}

// send puts errands to a node as one request, and does not wait. Several are all to keep. After Close nothing is sent.
func (s *Store) send(n *node, errands []errand) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.shut {
		return
	}
	s.under.Add(1)
	load := freight{n, errands}
	select {
	case s.freight <- load:
	default:
		s.frame.Go(func() { s.carrier(load) })
	}
}

// A freight is what goes to a node as one request.
type freight struct {
	to      *node
	errands []errand
}

// mostResting is how many carriers wait for the next freight.
const mostResting = 16

// carrier carries a freight, brings back the answers, and then waits for the next: to grow the stack of a new goroutine for
// each request would be a good part of what a lock costs.
func (s *Store) carrier(load freight) {
	for {
		s.bring(load.to, load.errands)
		if s.resting.Add(1) > mostResting {
			s.resting.Add(-1)
			return
		}
		select {
		case load = <-s.freight:
			s.resting.Add(-1)
		case <-s.frame.Life().Done():
			return
		}
	}
}

// bring puts errands to a node, and the answers to the machines that have sent them.
func (s *Store) bring(n *node, errands []errand) {
	defer s.sent()
	answers := s.carry(n, errands)
	for i := range errands {
		s.notice(n.index, &answers[i])
		errands[i].from.answer(n.index, &errands[i], answers[i])
	}
}

// sent notes that all is done about a request.
func (s *Store) sent() {
	if s.under.Add(-1) == 0 && s.frame.Closed() {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
}

// carry puts errands to a node and waits for the answers. A node that fails has failed for all of them.
func (s *Store) carry(n *node, errands []errand) []vote.Answer {
	answers, unsent, err := s.exchange(n, errands)
	if err != nil {
		answers = make([]vote.Answer, len(errands))
		for i := range answers {
			answers[i] = vote.Answer{Code: vote.Failed, Unsent: unsent, Err: err}
		}
	}
	return answers
}

// exchange sends errands and reads the answers. Unsent says of an error that the request has set nothing, and never will: it
// was not sent, or the node has refused it. A node may have done a part of several.
func (s *Store) exchange(n *node, errands []errand) (answers []vote.Answer, unsent bool, err error) {
	if err := n.enter(s.rota.now(), s.timeoutOf(s.maxTTL)); err != nil {
		return nil, true, err
	}
	w, err := s.wireSoon(n)
	if err != nil {
		n.leave(s.rota.now(), false)
		return nil, true, err
	}
	var c call
	if len(errands) == 1 {
		c = newCall(&errands[0].request, w.Info.Run())
	} else {
		requests := make([]*vote.Request, len(errands))
		for i := range errands {
			requests[i] = &errands[i].request
		}
		c = newKeep(requests, w.Info.Run())
	}
	ctx, done := s.frame.Shared(context.Background(), requestLimit)
	defer done()
	reply, err := run(ctx, w, c)
	_, refused := rueidis.IsRedisErr(err)
	n.leave(s.rota.now(), err == nil || refused)
	if err != nil {
		return nil, refused && len(errands) == 1, err
	}
	if len(errands) > 1 {
		answers, err = readAnswers(reply, len(errands))
		return answers, false, err
	}
	a, err := readAnswer(reply)
	return []vote.Answer{a}, false, err
}

// wireSoon gives a connection, or says that there is none for now. Whoever asked counts the node as failed by then.
func (s *Store) wireSoon(n *node) (*wire, error) {
	if w, ok := n.commands.Live(); ok {
		return w, nil
	}
	ctx, cancel := context.WithTimeout(s.frame.Life(), s.timeoutOf(s.maxTTL))
	defer cancel()
	return n.wire(ctx)
}

// requestLimit is when a request is given up, long after it counted for anything.
const requestLimit = 10 * time.Second

// timeoutOf is how long one node may take to answer about a claim with this ttl.
func (s *Store) timeoutOf(ttl time.Duration) time.Duration { return s.rules.Timeout(ttl) }
