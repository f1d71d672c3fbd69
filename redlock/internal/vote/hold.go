package vote

import "time"

// A phase is how far a try has come.
type phase uint8

const (
	taking  phase = iota // asks all nodes for the key
	raising              // has a majority, and draws its ticket
	holding              // holds, and is kept
	leaving              // is given back, everywhere, until that is acknowledged
	done                 // nothing of it is left to do
)

// A hold is one try of a claim, from its take to its last release. It has a value of its own: a release of an earlier
// try that arrives late must not end a later one.
type hold struct {
	*Rules
	key, value string
	ttl        time.Duration // as the holder believes
	life       time.Duration // as the nodes keep it: ttl and grace
	try        uint64        // its number among the tries of the claim
	floor      uint64
	proposal   uint64 // the ticket that goes along with the take; 0: none
	ceiling    uint64 // nodes found this ticket too high; 0: none did

	phase   phase
	began   time.Duration // when the take was sent
	until   time.Duration // up to when it is held, from the last take or keep that a majority answered
	ticket  uint64
	round   round
	lastSet time.Duration // when a request that can set the key was last sent or answered
	held    bool
	tell    bool // its release is told: others may get the lock then
	seats   []seat

	probing bool          // only one node was asked so far: see probe
	probed  int           // which
	told    bool          // that node has told of a release
	probeBy time.Duration // and when the others are asked all the same

	again  time.Duration // leaving: when to send again what is not acknowledged
	pause  time.Duration // and how long to pause after that
	forget time.Duration // and when to stop: whatever is left has run out
	out    *[]Send       // what is to be sent
}

// A round is one question to all nodes.
type round struct {
	op       Op
	number   uint64
	sent     time.Duration
	deadline time.Duration // who has not answered by then has failed
	timeUp   bool
	result   bool // it has had its result; what comes later is still counted in
	settled  bool // and that all is counted in was said too
}

// A seat is what a hold knows of one node.
type seat struct {
	said     Answer // to the round
	answered bool   // the round
	counted  bool   // in the last take or keep, for the holder
	granted  bool   // the take
	had      bool   // it has said that the key is there
	denied   bool   // it has said that somebody else has it, and has a vote
	mark     uint64 // that it had then
	mad      bool   // the mark is so high that no ticket above it can be drawn: the grant does not count
	raised   bool   // it has the ticket: the proposal while it is taken, and later the one that was drawn
	touched  bool   // it was ever asked to set the key
	pending  uint64 // the last take or keep that it has not answered: it may yet set the key; 0: none
	silent   bool   // it has failed, so that no answer to that will come
	stale    bool   // there is an earlier one too
	acked    bool   // the key is not there, and will not be set any more
	leave    uint64 // the round from which on a release counts: the key was set after the earlier ones
	spared   bool   // leaving: it is not asked before it has answered the take
}

// seq of a request has the try, the round and the op, so that an answer finds its way back.
func (h *hold) seq(op Op) uint64 { return h.try<<32 | h.round.number<<4 | uint64(op) }

func tryOf(seq uint64) uint64   { return seq >> 32 }
func roundOf(seq uint64) uint64 { return seq & (1<<32 - 1) >> 4 }
func opOf(seq uint64) Op        { return Op(seq & 15) }

// ask begins a round.
func (h *hold) ask(now time.Duration, op Op) {
	h.round = round{op: op, number: h.round.number + 1, sent: now, deadline: now + h.Timeout(h.ttl)}
	if op == Raise && !h.Without.Has(TimeAfterRaise) {
		h.round.deadline = min(h.round.deadline, h.until) // what comes later is of no use
	}
	for i := range h.seats {
		s := &h.seats[i]
		s.answered, s.said = false, Answer{}
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
func (h *hold) request(node int, op Op) {
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

// answer notes what a node said. An answer that comes twice, or to a round that is over, changes little: a late grant
// is noted, and where the key was given back it is given back again.
func (h *hold) answer(now time.Duration, node int, seq uint64, a *Answer) {
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
		s.mad = h.ceiling != 0 && a.Mark+1 >= h.ceiling
		s.raised = h.phase == taking && h.proposal != 0 && a.Ticket == h.proposal
		if h.phase == raising { // it came too late for the proposal, and can still carry it
			h.request(node, Raise)
		}
	}
	if op != h.round.op || number != h.round.number || s.answered {
		return
	}
	s.answered, s.said = true, *a
	if op == Raise {
		s.raised = a.Code == Granted
	}
	if op == Keep {
		s.counted = (a.Code == Kept || a.Code == Repaired) && (a.Votes || h.Without.Has(VotesOnKeep))
	}
}

// count says how many seats are so.
func (h *hold) count(so func(*seat) bool) (n int) {
	for i := range h.seats {
		if so(&h.seats[i]) {
			n++
		}
	}
	return n
}

func (h *hold) counted() int { return h.count(func(s *seat) bool { return s.counted }) }

// open is how many may still answer the round in time.
func (h *hold) open() int {
	if h.round.timeUp {
		return 0
	}
	raise := h.round.op == Raise && !h.Without.Has(RaiseAtOwn)
	return h.count(func(s *seat) bool {
		return !s.answered && (!raise || s.granted || s.pending != 0) // a straggler of the take is asked when it is there
	})
}

// said is how many answered the round with one of two codes.
func (h *hold) said(one, other Code) int {
	return h.count(func(s *seat) bool { return s.answered && (s.said.Code == one || s.said.Code == other) })
}

// clock notes that time has passed.
func (h *hold) clock(now time.Duration) {
	if h.phase < leaving && !h.probing && now >= h.round.deadline {
		h.round.timeUp = true
	}
	if h.phase == leaving {
		h.repeat(now)
	}
}

// wake is when the clock has something to say; 0: not at all.
func (h *hold) wake() time.Duration {
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
