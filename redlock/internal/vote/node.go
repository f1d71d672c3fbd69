package vote

import "time"

// recordFormat is the version of what a node keeps beside the locks.
const recordFormat = 1

const (
	ahead = time.Minute // how far ahead of its clock a node without a mark begins
	// How long a declaration of an operator is valid: a restart from old data must not find it.
	trustFor   = 10 * time.Minute
	believable = 24 * time.Hour // how far ahead of the clock of a node a ticket may be (store.FloorAhead)
)

// MaxTicket is the highest ticket: beyond it Lua's numbers are not exact.
const MaxTicket = 9007199254740000

// A Node is the data of one Redis, and the specification of its scripts: a script that differs from it is wrong. The
// zero value is a fresh node.
type Node struct {
	Record *Record          // nil: the data is lost, or there never was any
	Keys   map[string]Entry // the locks
	Tombs  map[string]int64 // the values that have left, with the last millisecond of their tombstones
	Off    Without          // for controls only
}

// A Record is the state of a node. It is one key, so that no part of it is lost alone.
type Record struct {
	Format int
	Run    string        // of the server that wrote it
	MaxTTL time.Duration // of the deployment
	Mark   uint64        // the highest ticket known here
	Votes  bool
	Since  time.Duration // without a vote: when the quarantine began, by the node's clock
	// An operator has declared that the next restart keeps all data, if it is before this; 0: not declared.
	Trusted time.Duration
}

// An Entry is the key of a lock.
type Entry struct {
	Value  string
	Ticket uint64 // 0 until the ticket is drawn
	End    int64  // the last millisecond of its life, by the node's clock
}

// Do runs a script. now is the node's clock since 1970, and run the id that the server generated when it started. freed
// reports that the script publishes to waiters that the key is free.
func (n *Node) Do(now time.Duration, run string, r *Request) (a Answer, freed bool) {
	if a, ok := n.enter(now, run, r); !ok {
		return a, false
	}
	switch r.Op {
	case Take:
		a = n.take(now, r)
	case Keep:
		a = n.keep(now, r)
	case Leave:
		a, freed = n.leave(now, r)
	case Raise:
		a = n.raise(now, r)
	case Look:
		a = n.look(now, r)
	case Admit:
		a = n.admit(now, r)
	case Init:
		a = Answer{Code: Refused}
	case Trust:
		n.Record.Trusted = now + trustFor
		a = Answer{Code: Granted}
	case Break:
		a, freed = n.breakKey(now, r)
	}
	n.describe(now, &a)
	return a, freed
}

// enter checks whether the node still has its data, and whether the client belongs to the same deployment. Every script
// begins with it, and continues if ok is true.
func (n *Node) enter(now time.Duration, run string, r *Request) (a Answer, ok bool) {
	rec := n.Record
	switch {
	case rec == nil && r.Op == Look: // a Look writes nothing
		return Answer{Code: Absent, Wait: r.MaxTTL}, false
	case rec == nil:
		n.Record = &Record{Format: recordFormat, Run: run, MaxTTL: r.MaxTTL, Mark: micros(now + ahead), Since: now}
		if r.Op == Init {
			n.Record.Votes = true
			return Answer{Code: Granted, Votes: true, Mark: n.Record.Mark}, false
		}
	case rec.Format > recordFormat:
		return Answer{Code: Newer}, false
	case rec.MaxTTL != r.MaxTTL && !n.Off.Has(OneMaxTTL):
		return Answer{Code: Mismatch, MaxTTL: rec.MaxTTL}, false
	case rec.Run != run && now < rec.Trusted:
		rec.Run, rec.Trusted = run, 0
	case rec.Run != run:
		rec.Run, rec.Votes, rec.Since, rec.Trusted = run, false, now, 0
	case !rec.Votes && now < rec.Since: // the clock was set back: the quarantine starts again
		rec.Since = now
	}
	rec = n.Record
	if n.Off.Has(Quarantine) || n.Off.Has(AdmissionMark) && n.wait(now) == 0 {
		rec.Votes = true
	}
	return Answer{}, true
}

// wait returns how much longer the quarantine lasts.
func (n *Node) wait(now time.Duration) time.Duration {
	return max(0, n.Record.Since+n.Record.MaxTTL-now)
}

// describe adds the state of the node to an answer.
func (n *Node) describe(now time.Duration, a *Answer) {
	a.Votes = n.Record.Votes
	if a.Mark == 0 {
		a.Mark = n.Record.Mark
	}
	if !a.Votes {
		a.Episode = Episode{n.Record.Run, n.Record.Since}
		a.Wait = n.wait(now)
	}
}

func (n *Node) take(now time.Duration, r *Request) Answer {
	e, there := n.find(now, r.Key)
	before := n.Record.Mark
	switch {
	case !n.Record.Votes:
		return Answer{Code: NoVote}
	case there && e.Value != r.Value:
		return denied(now, e)
	case there:
		e.End = end(now, r.TTL)
	case n.buried(now, r.Value):
		return Answer{Code: Buried}
	default:
		e = Entry{Value: r.Value, End: end(now, r.TTL)}
		if r.Ticket > before && credible(now, r.Ticket) || n.Off.Has(AboveMarks) {
			e.Ticket, n.Record.Mark = r.Ticket, max(before, r.Ticket)
		}
	}
	n.set(r.Key, e)
	return Answer{Code: Granted, Mark: before, Ticket: e.Ticket}
}

// credible reports whether a ticket is acceptable: one far ahead of the clock would leave no room for others.
func credible(now time.Duration, ticket uint64) bool {
	return ticket <= MaxTicket && ticket <= micros(now+believable)
}

// keep also repairs: a key that expired or was lost is set again, even at a node without a vote.
func (n *Node) keep(now time.Duration, r *Request) Answer {
	e, there := n.find(now, r.Key)
	code := Kept
	switch {
	case there && e.Value != r.Value:
		return denied(now, e)
	case !there && n.buried(now, r.Value):
		return Answer{Code: Buried}
	case !there:
		code = Repaired
	}
	n.set(r.Key, Entry{Value: r.Value, Ticket: r.Ticket, End: end(now, r.TTL)})
	return Answer{Code: code}
}

func (n *Node) leave(now time.Duration, r *Request) (a Answer, freed bool) {
	if e, there := n.find(now, r.Key); there && e.Value == r.Value {
		delete(n.Keys, r.Key)
	}
	if r.Bury {
		n.bury(now, r.Value, r.TTL)
	}
	return Answer{Code: Left}, r.Tell
}

// raise is refused where the value does not have the key: only a node that has the key makes the next holder meet the
// ticket.
func (n *Node) raise(now time.Duration, r *Request) Answer {
	e, there := n.find(now, r.Key)
	own := there && e.Value == r.Value
	before := n.Record.Mark
	switch {
	case !n.Record.Votes:
		return Answer{Code: NoVote}
	case !own && !n.Off.Has(RaiseAtOwn):
		return Answer{Code: Absent}
	case !credible(now, r.Ticket):
		return Answer{Code: TooHigh}
	}
	n.Record.Mark = max(before, r.Ticket)
	if own {
		e.Ticket = r.Ticket
		n.set(r.Key, e)
	}
	return Answer{Code: Granted, Mark: before}
}

func (n *Node) look(now time.Duration, r *Request) Answer {
	if e, there := n.find(now, r.Key); there {
		return denied(now, e)
	}
	return Answer{Code: Absent}
}

func (n *Node) admit(now time.Duration, r *Request) Answer {
	rec := n.Record
	same := r.Episode == Episode{rec.Run, rec.Since}
	if rec.Votes || n.wait(now) > 0 || !same {
		return Answer{Code: Refused}
	}
	rec.Votes, rec.Mark = true, max(rec.Mark, r.Ticket)
	return Answer{Code: Granted}
}

// breakKey leaves a tombstone: otherwise the next keep would repair the key.
func (n *Node) breakKey(now time.Duration, r *Request) (a Answer, freed bool) {
	e, there := n.find(now, r.Key)
	if !there || e.Ticket != r.Ticket || r.Ticket == 0 {
		return Answer{Code: Absent}, false
	}
	delete(n.Keys, r.Key)
	n.bury(now, e.Value, r.TTL)
	return Answer{Code: Granted}, true
}

// Residue returns how many keys and tombstones the node still has.
func (n *Node) Residue(now time.Duration) (count int) {
	for key := range n.Keys {
		if _, there := n.find(now, key); there {
			count++
		}
	}
	for value := range n.Tombs {
		if n.buried(now, value) {
			count++
		}
	}
	return count
}

// find returns a key that has not expired. A key that has is removed.
func (n *Node) find(now time.Duration, key string) (Entry, bool) {
	e, there := n.Keys[key]
	if there && now.Milliseconds() > e.End {
		delete(n.Keys, key)
		return Entry{}, false
	}
	return e, there
}

func (n *Node) set(key string, e Entry) {
	if n.Keys == nil {
		n.Keys = map[string]Entry{}
	}
	n.Keys[key] = e
}

func (n *Node) buried(now time.Duration, value string) bool {
	last, there := n.Tombs[value]
	if there && now.Milliseconds() > last {
		delete(n.Tombs, value)
		return false
	}
	return there
}

// bury does not renew a tombstone.
func (n *Node) bury(now time.Duration, value string, ttl time.Duration) {
	if n.buried(now, value) {
		return
	}
	if n.Tombs == nil {
		n.Tombs = map[string]int64{}
	}
	n.Tombs[value] = end(now, ttl)
}

// denied describes the holder of the key, and how long it lives, as PTTL returns it.
func denied(now time.Duration, e Entry) Answer {
	return Answer{
		Code: Denied, Holder: e.Value, Ticket: e.Ticket,
		Left: time.Duration(e.End-now.Milliseconds()) * time.Millisecond,
	}
}

// end returns when a key expires, as Redis counts it: in whole milliseconds.
func end(now, ttl time.Duration) int64 {
	return now.Milliseconds() + (ttl + time.Millisecond - 1).Milliseconds()
}

func micros(d time.Duration) uint64 { return uint64(d.Microseconds()) } //nolint:gosec // a clock after 1970
