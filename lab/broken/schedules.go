package broken

import (
	"time"

	"github.com/holdfast-go/holdfast/lab/proxy"
)

// Schedules that several rungs share. The caller has chosen the servers before.

// deadHolderBound is how long a client may wait for the lock of a dead holder. It is several times the ttl.
const deadHolderBound = 3 * time.Second

// holderDies lets A take the lock and die, and B wait for it.
func (s *stage) holderDies() {
	s.boundsWaits(deadHolderBound)
	a, b := s.enterProcess(ttl(s.millis(300, 600))), s.enter("B")
	a.locks()
	a.works(s.millis(50, 150))
	a.dies()
	b.waitsForDead()
}

// waitsForDead requests the lock of a dead holder, and gives up when the wait is too long.
func (p *player) waitsForDead() {
	w := p.asks()
	if !w.grantedWithin(p.bound + p.millis(50, 200)) {
		w.givesUp()
	}
}

// releasesLate delays A's release until A's lock has expired and B has acquired it: the network holds back A's request
// or the response. Then C tries.
func (s *stage) releasesLate(a *player, flows proxy.Flow, what string) {
	b, c := s.enter("B"), s.enter("C")
	a.locks()
	w := b.asks()
	a.works(s.millis(50, 120))
	deliver := a.holdBack(flows, what)
	released := a.beginsToUnlock()
	s.await(what+" is on its way", func() bool { return a.held(flows) > 0 })
	w.granted()
	deliver()
	released()
	c.triesWrongly(s.millis(100, 200))
}

// clockIsAhead lets B, whose clock is ahead, try to take the lock that A has just taken.
func (s *stage) clockIsAhead() {
	ahead := s.seconds(15, 60)
	a, b := s.enter("A"), s.enter("B", skew(ahead))
	a.locks()
	s.breaks("clock ahead", "B", "B's clock is %v ahead", ahead)
	b.triesWrongly(s.millis(100, 200))
}
