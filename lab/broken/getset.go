package broken

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
)

// A getSet keeps in the key when the lock expires, by the clock of the client that took it. Clients compare it with
// their own.
type getSet struct {
	*redis
	*part
	expires time.Time
}

func (l *getSet) tryLock(ctx context.Context) (bool, error) {
	now := l.clock()
	l.expires = now.Add(l.TTL)
	ok, err := l.ok("SETNX", l.Lock, l.expires.UnixMilli())
	if ok || err != nil {
		return ok, err
	}
	old, err := l.expiry("GET", l.Lock)
	if err != nil || old.After(now) {
		return false, err // it is held
	}
	if err := l.between.pass(ctx); err != nil { // here others may be as far
		return false, err
	}
	before, err := l.expiry("GETSET", l.Lock, l.expires.UnixMilli())
	return !before.After(now), err // if it was not over, another client was faster
}

func (l *getSet) expiry(args ...any) (time.Time, error) {
	answer, err := l.do(args...)
	if err != nil || answer == nil {
		return time.Time{}, err
	}
	millis, err := strconv.ParseInt(fmt.Sprint(answer), 10, 64)
	return time.UnixMilli(millis), err
}

func (l *getSet) unlock(context.Context) error {
	if l.clock().After(l.expires) {
		return nil // it may be another's by now
	}
	_, err := l.do("DEL", l.Lock)
	return err
}

func (l *getSet) believes() bool { return l.clock().Before(l.expires) }

var openGetSet = overRedis(func(r *redis, p *part) lock { return &getSet{redis: r, part: p} })

var getSetClock = &Rung{
	Number: 5, Name: "getset-clock",
	What:    "SETNX with the expiry time as the value; whoever finds it in the past takes over with GETSET",
	Seen:    "the old documentation of SETNX, and many libraries of that time",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "B's clock is ahead of A's. A has just taken the lock, and to B its time is long over.",
	Prevents: "Time is the server's. No request carries a client's clock, so that one that is wrong has nothing to " +
		"act on. (The skew is B's alone: there is nothing in Holdfast's requests to apply it to.)",
	Store: "redis", Needs: redisServer, Budget: 20 * time.Second,
	broken: openGetSet, holdfast: holdfastRedis,
	schedule: func(s *stage) {
		s.onRedis()
		s.clockIsAhead()
	},
}

var getSetOverwrite = &Rung{
	Number: 5, Name: "getset-overwrite",
	What:    "the same lock, and no clock is wrong: its GETSET writes also if it loses",
	Seen:    "the same places",
	Promise: oneHolder, Rule: check.Exclusion,
	Story: "A has died. B and C both read that its time is over. B's GETSET wins. C's GETSET loses, and overwrites " +
		"B's expiry with its own, shorter one. When that has passed, D takes the lock from B.",
	Prevents: "A claim that does not get the lock changes nothing of the one that holds it: joining the line is one " +
		"script, and each claim has its own deadline.",
	Store: "redis", Needs: redisServer, Budget: 20 * time.Second,
	broken: openGetSet, holdfast: holdfastRedis,
	schedule: func(s *stage) {
		server := s.onRedis()
		first, second := newGate(), newGate()
		a := s.enterProcess(ttl(s.millis(200, 400)))
		short := s.millis(200, 400)
		b, c := s.enter("B", stopsBetween(first)), s.enter("C", ttl(short), stopsBetween(second))
		d := s.enter("D")
		a.locks()
		a.dies()
		wb := b.asks()
		wb.inLine(1)
		wc := c.asks()
		if !s.holdfast {
			s.meets(first, "B reads that A's time is over")
			s.meets(second, "C reads the same")
		}
		first.opens()
		wb.granted()
		winners, err := server.Do("GET", s.lock)
		s.must(err)
		second.opens()
		if !s.holdfast {
			s.await("C's GETSET arrives", func() bool {
				now, err := server.Do("GET", s.lock)
				s.must(err)
				return now != winners
			})
			s.tell("", "C has lost, and B's expiry is C's now")
		}
		wc.givesUp()
		d.triesWrongly(3 * short)
	},
}

// meets waits until a client has come to a gate.
func (s *stage) meets(g *gate, what string) {
	select {
	case <-g.arrived:
		s.tell("", "%s", what)
	case <-time.After(patience):
		s.must(fmt.Errorf("%s: not after %v", what, patience))
	}
}
