package redlock

import (
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// A callRecord has which nodes carried out the last call of a claim, and the replies of the others. It is for error
// messages and logs: the machine decides by what it knows itself.
type callRecord struct {
	kind       vote.Op       // of the call: Take, Keep or Leave
	value      string        // of the try
	keep       uint64        // the seq of the requests to keep, to recognise an answer to an earlier call
	replies    []vote.Answer // the replies of nodes that did not succeed; nil: none
	succeeded  nodeSet       // carried it out in time
	responded  nodeSet       // replied at all
	late       nodeSet       // carried it out, too late for the result
	raise      nodeSet       // granted the lock and then received the ticket, which is what counts
	unreleased nodeSet       // received the release of the try, and have not acknowledged it
}

// begin starts a call. It keeps the failure of a node that already received the release: the node may not receive it
// again before the call ends.
func (t *callRecord) begin(kind vote.Op) {
	t.kind, t.keep, t.succeeded, t.responded, t.late, t.raise = kind, 0, 0, 0, 0, 0
	for i := range t.replies {
		if kind != vote.Leave || !t.unreleased.has(i) {
			t.replies[i] = vote.Answer{}
		}
	}
}

// sending records the requests of a call.
func (t *callRecord) sending(sends []vote.Send) {
	for i := range sends {
		r, bit := &sends[i].Request, nodeSet(1)<<sends[i].Node
		switch r.Op { //nolint:exhaustive // a claim sends no others
		case vote.Take:
			if t.value != r.Value {
				t.value, t.unreleased = r.Value, 0
			}
		case vote.Keep:
			t.keep = sends[i].Seq
		case vote.Raise:
			t.raise |= bit
			t.succeeded &^= bit
			t.responded &^= bit
		case vote.Leave:
			if r.Value == t.value {
				t.unreleased |= bit
			}
		}
	}
}

// recordAnswer records the answer of a node. The caller holds mu.
func (b *localClaim) recordAnswer(r *nodeRequest, a *vote.Answer) {
	t, op, bit := &b.record, r.Request.Op, nodeSet(1)<<r.Node
	if r.Request.Value != t.value {
		return // it is about an earlier try
	}
	if op == vote.Leave && a.Code == vote.Left {
		t.unreleased &^= bit
	}
	switch {
	case op == vote.Leave && t.kind != vote.Leave && b.call != nil: // which is about something else
	case op == vote.Raise && t.kind != vote.Take,
		op == vote.Take && t.kind != vote.Take,
		op == vote.Keep && r.Seq != t.keep:
	case !succeeded(op, a):
		t.responded |= bit
		t.succeeded &^= bit
		if t.replies == nil {
			t.replies = make([]vote.Answer, len(b.store.nodes))
		}
		if t.replies[r.Node] = *a; a.Code == vote.Granted {
			t.replies[r.Node] = vote.Answer{Code: vote.Failed, Err: errMarkTooHigh}
		}
	case b.result.Verdict == vote.Faulty:
		t.responded |= bit
		t.late |= bit
	case op == vote.Take && t.raise != 0: // it is about to receive the ticket
	default:
		t.responded |= bit
		t.succeeded |= bit
	}
}

// succeeded reports whether a node has carried out a request.
func succeeded(op vote.Op, a *vote.Answer) bool {
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

// Reasons why an answer that granted does not count.
var (
	errLate        = errors.New("it responded too late")
	errOver        = errors.New("the lock has expired, and is not renewed any more")
	errMarkTooHigh = errors.New("its highest token is more than a day ahead, so that no other can be drawn above it")
)

// sentAny reports whether the call has sent requests: a claim that has expired is not kept any more.
func (t *callRecord) sentAny() bool { return t.kind != vote.Keep || t.keep != 0 }

// fault returns the error of the last call of a claim. The caller holds mu.
func (b *localClaim) fault() error {
	s, t := b.store, &b.record
	if !t.sentAny() || t.kind == vote.Keep && t.succeeded.count() >= s.rules.Majority() {
		return &store.Fault{Store: s.frame.Name, Err: errOver}
	}
	said, counts := make([]vote.Answer, len(s.nodes)), t.succeeded
	copy(said, t.replies)
	for i := range said {
		if t.late.has(i) {
			said[i] = vote.Answer{Code: vote.Failed, Err: errLate}
		}
	}
	if t.kind == vote.Leave { // a node without a request has nothing to release
		counts = s.all() &^ t.unreleased
	}
	return s.noMajority(said, counts, t.raise, s.rules.Timeout(b.ttl))
}
