package redlock

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// A tally is which nodes did what the last call of a bid asked for, and what the others said. It is for people: the
// machine decides by what it knows itself.
type tally struct {
	kind   vote.Op       // of the call: Take, Keep or Leave
	value  string        // of the try
	keep   uint64        // the seq of the requests to keep: an answer to an earlier call is none to this
	said   []vote.Answer // what was not as wished; nil: nothing
	counts nodeSet       // did as wished
	heard  nodeSet       // said anything
	late   nodeSet       // did as wished, too late for the result
	raise  nodeSet       // granted, and were then asked to take the ticket, which is what counts
	owing  nodeSet       // were asked to release the try, and have not acknowledged it
}

// begin begins a call. It keeps why a node failed that was asked to release already: it may not be asked again before
// the call ends.
func (t *tally) begin(kind vote.Op) {
	t.kind, t.keep, t.counts, t.heard, t.late, t.raise = kind, 0, 0, 0, 0, 0
	for i := range t.said {
		if kind != vote.Leave || !t.owing.has(i) {
			t.said[i] = vote.Answer{}
		}
	}
}

// sending notes what is asked.
func (t *tally) sending(sends []vote.Send) {
	for i := range sends {
		r, bit := &sends[i].Request, nodeSet(1)<<sends[i].Node
		switch r.Op { //nolint:exhaustive // a claim asks nothing else
		case vote.Take:
			if t.value != r.Value {
				t.value, t.owing = r.Value, 0
			}
		case vote.Keep:
			t.keep = sends[i].Seq
		case vote.Raise:
			t.raise |= bit
			t.counts &^= bit
			t.heard &^= bit
		case vote.Leave:
			if r.Value == t.value {
				t.owing |= bit
			}
		}
	}
}

// note keeps what a node said. The caller has mu.
func (b *bid) note(r *nodeRequest, a *vote.Answer) {
	t, op, bit := &b.tally, r.Request.Op, nodeSet(1)<<r.Node
	if r.Request.Value != t.value {
		return // it is about an earlier try
	}
	if op == vote.Leave && a.Code == vote.Left {
		t.owing &^= bit
	}
	switch {
	case op == vote.Leave && t.kind != vote.Leave && b.call != nil: // which is about something else
	case op == vote.Raise && t.kind != vote.Take, op == vote.Take && t.kind != vote.Take, op == vote.Keep && r.Seq != t.keep:
	case !asWished(op, a):
		t.heard |= bit
		t.counts &^= bit
		if t.said == nil {
			t.said = make([]vote.Answer, len(b.store.nodes))
		}
		if t.said[r.Node] = *a; a.Code == vote.Granted {
			t.said[r.Node] = vote.Answer{Code: vote.Failed, Err: errMad}
		}
	case b.result.Verdict == vote.Faulty:
		t.heard |= bit
		t.late |= bit
	case op == vote.Take && t.raise != 0: // it is about to be asked to take the ticket
	default:
		t.heard |= bit
		t.counts |= bit
	}
}

// asWished reports whether a node has done what it was asked.
func asWished(op vote.Op, a *vote.Answer) bool {
	switch a.Code { //nolint:exhaustive // of the others none is
	case vote.Left:
		return true
	case vote.Granted:
		return a.Votes && (op != vote.Take || !store.FloorTooHigh(a.Mark, time.Now()))
	case vote.Kept, vote.Repaired:
		return a.Votes
	}
	return false
}

// Why an answer that would do was of no use.
var (
	errLate = errors.New("it answered too late")
	errOver = errors.New("the lock has run out, and is not renewed any more")
	errMad  = errors.New("its highest token is more than a day ahead, so that no other can be drawn above it")
)

// asks reports whether the call has asked anything: a claim that has expired is not kept any more.
func (t *tally) asks() bool { return t.kind != vote.Keep || t.keep != 0 }

// fault is why the last call of a bid failed. The caller has mu.
func (b *bid) fault() error {
	s, t := b.store, &b.tally
	if !t.asks() || t.kind == vote.Keep && t.counts.count() >= s.rules.Majority() {
		return &store.Fault{Store: s.frame.Name, Err: errOver}
	}
	said, counts := make([]vote.Answer, len(s.nodes)), t.counts
	copy(said, t.said)
	for i := range said {
		if t.late.has(i) {
			said[i] = vote.Answer{Code: vote.Failed, Err: errLate}
		}
	}
	if t.kind == vote.Leave { // a node that was not asked has nothing to release
		counts = s.all() &^ t.owing
	}
	return s.fault(said, counts, t.raise, s.rules.Timeout(b.ttl))
}
