package check

import (
	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Tokens finds tokens that would mislead a fence. Every hold has one. Of two holds of which at least one is exclusive,
// the one that begins later has the greater token; shared holds may begin in any order among themselves. A token is
// marked as shared if its hold is. No two claims have the same ticket: only the turns of one claim inside its client
// share one, and what it was downgraded to. It returns the first 100 findings.
func Tokens(holds []history.Hold) []Finding { return byResource(holds, tokens) }

func tokens(s *search, holds []history.Hold) {
	l := &ledger{search: s, byTicket: map[uint64]history.Hold{}, byToken: map[holdfast.Token]history.Hold{}}
	for _, h := range holds {
		if s.full() {
			return
		}
		if h.Token == 0 {
			s.report(Order, []history.Hold{h}, "a hold has no token:")
			continue
		}
		again := l.enter(h)
		l.checkTicket(h)
		l.checkMark(h, again)
		l.checkOrder(h, again)
	}
}

// A ledger is what is known about the tokens of one resource, up to the current hold.
type ledger struct {
	*search
	byToken         map[holdfast.Token]history.Hold // the claim: it lasts from its first lease to the end of its last
	byTicket        map[uint64]history.Hold         // the first hold
	newest          history.Hold                    // the hold with the greatest token
	newestExclusive history.Hold                    // the exclusive hold with the greatest token
}

// enter reports whether h is another lease of a claim that is already held.
func (l *ledger) enter(h history.Hold) (again bool) {
	claim, known := l.byToken[h.Token]
	// The real end of a lost lease is unknown: it is between the recorded end and the instant at which the loss was
	// found.
	again = known && oneClaim(claim, h) && (claim.Open || h.Begin < max(claim.End, claim.Lost))
	if again {
		claim.End, claim.Lost, claim.Open = max(claim.End, h.End), max(claim.Lost, h.Lost), claim.Open || h.Open
	} else {
		claim = h
	}
	l.byToken[h.Token] = claim
	return again
}

func (l *ledger) checkTicket(h history.Hold) {
	ticket := h.Token.Ticket()
	first, known := l.byTicket[ticket]
	switch {
	case !known:
		l.byTicket[ticket] = h
	case !oneTicket(first, h):
		l.report(Unique, []history.Hold{first, h}, "two claims have ticket %d:", ticket)
	}
}

func (l *ledger) checkMark(h history.Hold, again bool) {
	exclusive := h.Kind == history.Exclusive
	if again && l.byToken[h.Token].Kind == history.Exclusive {
		exclusive = true // a read under the holder's own exclusive lease has the exclusive token
	}
	if h.Token.Shared() == exclusive {
		l.report(Mark, []history.Hold{h}, "a token's mark as shared does not fit its hold:")
	}
}

func (l *ledger) checkOrder(h history.Hold, again bool) {
	before := l.newestExclusive
	if h.Kind == history.Exclusive {
		before = l.newest
	}
	if h.Token < before.Token || h.Token == before.Token && !again {
		l.report(Order, []history.Hold{before, h}, "a later hold has a token that is %d behind:", before.Token-h.Token)
	}
	if h.Token > l.newest.Token {
		l.newest = h
	}
	if h.Kind == history.Exclusive && h.Token > l.newestExclusive.Token {
		l.newestExclusive = h
	}
}

// oneTicket reports whether two holds may share a ticket: a claim is handed over inside its client, turn by turn, and
// may be downgraded in the end. Shared claims are not handed over.
func oneTicket(a, b history.Hold) bool {
	if a.Process != b.Process || a.Client != b.Client {
		return false
	}
	return a.Kind == history.Exclusive || b.Kind == history.Exclusive || oneClaim(a, b)
}
