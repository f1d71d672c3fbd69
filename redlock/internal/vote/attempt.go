package vote

import "time"

// A phase is the progress of a try.
type phase uint8

const (
	taking  phase = iota // sends takes to all nodes
	raising              // has a majority, and draws its ticket
	holding              // holds, and is kept
	leaving              // is released at all nodes, until that is acknowledged
	done                 // nothing of it is left to do
)

// An attempt is one try of a claim, from its take to its last release. It has a value of its own: a release of an
// earlier try that arrives late must not end a later one.
type attempt struct {
	*Rules
	key, value string
	ttl        time.Duration // for the holder
	life       time.Duration // at the nodes: ttl and grace
	try        uint64        // its number among the tries of the claim
	floor      uint64
	proposal   uint64 // the ticket that is proposed with the take; 0: none
	ceiling    uint64 // nodes found this ticket too high; 0: none did

	phase   phase
	began   time.Duration // when the take was sent
	until   time.Duration // until when it is held, by the last take or keep that a majority answered
	ticket  uint64
	round   round
	lastSet time.Duration // when a request that can set the key was last sent or answered
	held    bool
	tell    bool // its release is published: other claims may acquire the lock then
	seats   []nodeView

	probing bool          // only one node has received the take so far: see probe
	probed  int           // which one
	told    bool          // that node has published a release
	probeBy time.Duration // and when the others receive the take all the same

	again  time.Duration // leaving: when to send again what is not acknowledged
	pause  time.Duration // and how long to pause after that
	forget time.Duration // and when to stop: whatever is left has expired
	out    *[]Send       // the requests to send
}

// A round is one request to all nodes.
type round struct {
	op       Op
	number   uint64
	sent     time.Duration
	deadline time.Duration // a node without an answer by then has failed
	timeUp   bool
	result   bool // it has its result; later answers still count
	settled  bool // and that no more answers are expected was reported too
}

// A nodeView is what an attempt knows of one node.
type nodeView struct {
	reply       Answer // to the round
	answered    bool   // the round
	counted     bool   // in the last take or keep, for the holder
	granted     bool   // the take
	had         bool   // it has answered that the key is there
	denied      bool   // it has answered that another claim has it, and has a vote
	mark        uint64 // of the node then
	markTooHigh bool   // the mark is so high that no ticket above it can be drawn: the grant does not count
	raised      bool   // it has the ticket: the proposal while it is taken, and later the one that was drawn
	touched     bool   // a request to set the key was ever sent to it
	pending     uint64 // the last take or keep that it has not answered: it may yet set the key; 0: none
	silent      bool   // it has failed, so that no answer to that will come
	stale       bool   // there is an earlier one as well
	acked       bool   // the key is not there, and will not be set any more
	leave       uint64 // the round from which on a release counts: the key was set after the earlier ones
	spared      bool   // leaving: no release is sent before it has answered the take
}

// seq returns the number of a request, which has the try, the round and the op, so that an answer can be assigned.
func (h *attempt) seq(op Op) uint64 { return h.try<<32 | h.round.number<<4 | uint64(op) }

func tryOf(seq uint64) uint64   { return seq >> 32 }
func roundOf(seq uint64) uint64 { return seq & (1<<32 - 1) >> 4 }
func opOf(seq uint64) Op        { return Op(seq & 15) }

// ask starts a round.
func (h *attempt) ask(now time.Duration, op Op) {
	h.round = round{op: op, number: h.round.number + 1, sent: now, deadline: now + h.Timeout(h.ttl)}
	if op == Raise && !h.Without.Has(TimeAfterRaise) {
		h.round.deadline = min(h.round.deadline, h.until) // a later answer is useless
	}
	for i := range h.seats {
		s := &h.seats[i]
		s.answered, s.reply = false, Answer{}
		switch op {
		case Raise:
			s.raised = false
			if !s.granted && !h.Without.Has(RaiseAtOwn) {
				continue
			}
		default:
			s.stale = s.stale || s.pending != 0
			s.counted, s.touched, s.pending, s.silent = false, true, h.round.number, false
			h.lastSet = now
		}
		h.request(i, op)
	}
}

// request sends one request of the round.
func (h *attempt) request(node int, op Op) {
	r := Request{Op: op, MaxTTL: h.MaxTTL, Key: h.key, Value: h.value, TTL: h.life}
	switch op {
	case Take:
		r.Ticket = h.proposal
	case Leave:
		s := &h.seats[node]
		r.Bury = (s.pending != 0 || s.stale) && !h.Without.Has(Tombstones)
		r.Tell = h.tell
	default:
		r.Ticket = h.ticket
	}
	*h.out = append(*h.out, Send{Node: node, Seq: h.seq(op), Request: r})
}

// answer records the answer of a node. An answer that arrives twice, or to a round that is over, changes little: a late
// grant is recorded, and if the key was released it is released again.
func (h *attempt) answer(now time.Duration, node int, seq uint64, a *Answer) {
	s, op, number := &h.seats[node], opOf(seq), roundOf(seq)
	if op == Leave {
		h.acknowledged(s, number, a)
		return
	}
	if op != Raise && a.Code != Failed {
		h.lastSet = now
		s.had = s.had || a.Code == Granted || a.Code == Kept || a.Code == Repaired
		s.denied = a.Code == Denied && a.Votes
	}
	if op != Raise && s.pending == number {
		if s.silent = a.Code == Failed; !s.silent || a.Unsent {
			s.pending = 0
		}
	}
	if h.phase >= leaving {
		h.late(now, node, op, a)
		return
	}
	if op == Take && a.Code == Granted && !s.granted {
		s.granted, s.mark, s.counted = true, a.Mark, s.counted || h.round.op != Keep
		s.markTooHigh = h.ceiling != 0 && a.Mark+1 >= h.ceiling
		s.raised = h.phase == taking && h.proposal != 0 && a.Ticket == h.proposal
		if h.phase == raising { // it came too late for the proposal, and can still accept it
			h.request(node, Raise)
		}
	}
	if op != h.round.op || number != h.round.number || s.answered {
		return
	}
	s.answered, s.reply = true, *a
	if op == Raise {
		s.raised = a.Code == Granted
	}
	if op == Keep {
		s.counted = (a.Code == Kept || a.Code == Repaired) && (a.Votes || h.Without.Has(VotesOnKeep))
	}
}

// count returns the number of nodes for which a condition holds.
func (h *attempt) count(so func(*nodeView) bool) (n int) {
	for i := range h.seats {
		if so(&h.seats[i]) {
			n++
		}
	}
	return n
}

func (h *attempt) counted() int { return h.count(func(s *nodeView) bool { return s.counted }) }

// open returns how many nodes may still answer the round in time.
func (h *attempt) open() int {
	if h.round.timeUp {
		return 0
	}
	raise := h.round.op == Raise && !h.Without.Has(RaiseAtOwn)
	return h.count(func(s *nodeView) bool {
		return !s.answered && (!raise || s.granted || s.pending != 0) // a late grant receives the raise when it arrives
	})
}

// said returns how many nodes answered the round with one of two codes.
func (h *attempt) said(one, other Code) int {
	return h.count(func(s *nodeView) bool { return s.answered && (s.reply.Code == one || s.reply.Code == other) })
}

// clock applies the time.
func (h *attempt) clock(now time.Duration) {
	if h.phase < leaving && !h.probing && now >= h.round.deadline {
		h.round.timeUp = true
	}
	if h.phase == leaving {
		h.repeat(now)
	}
}

// wake returns when clock has something to do; 0: never.
func (h *attempt) wake() time.Duration {
	switch {
	case h.phase == done:
		return 0
	case h.phase == leaving:
		return min(h.again, h.forget)
	case h.round.timeUp || h.round.settled:
		return 0
	case h.probing:
		return h.probeBy
	}
	return h.round.deadline
}
