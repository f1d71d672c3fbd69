package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// An admission drives the machine that gives nodes their vote back.
type admission struct {
	store *Store
	timer *time.Timer

	mu      sync.Mutex
	machine *vote.Admitter
	news    chan struct{} // closed and made anew when a node has got its vote
}

func newAdmission(s *Store) *admission {
	m := &admission{store: s, machine: vote.NewAdmitter(&s.rules), news: make(chan struct{})}
	m.timer = newTimer(m.wake)
	return m
}

// notice looks at the answer of a node, whoever asked: for its mark, and whether it needs one. What others say is of no
// interest to an admission.
func (s *Store) notice(node int, a *vote.Answer) {
	if !store.FloorTooHigh(a.Mark, time.Now()) { // or no node but that one would ever accept what is foretold
		s.guess.Saw(s.now(), a.Mark)
	}
	if s.admission != nil && a.NeedsMark() {
		m := s.admission
		m.mu.Lock()
		defer m.mu.Unlock()
		m.follow(m.machine.Notice(s.now(), node, a))
	}
}

// follow does what the machine wants. The caller has mu.
func (m *admission) follow(step vote.Step) {
	m.store.post(m, step.Send, nil)
	m.store.setTimer(m.timer, step.Wake)
}

// answer implements machine.
func (m *admission) answer(r *nodeRequest, a vote.Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.follow(m.machine.Answer(m.store.now(), r.Node, r.Seq, a))
	if r.Request.Op != vote.Admit {
		return
	}
	if m.store.nodes[r.Node].unvoted.Store(nil); a.Code == vote.Failed {
		m.store.nodes[r.Node].unvoted.Store(&a.Err)
	}
	if a.Votes { // by us, or by another client just before
		close(m.news)
		m.news = make(chan struct{})
	}
}

// stop is for a store that is closed.
func (m *admission) stop() {
	if m == nil {
		return // a tool of operators has none
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timer.Stop()
}

// wake is called by the timer.
func (m *admission) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.follow(m.machine.Wake(m.store.now()))
}

// next is closed when a node has got its vote.
func (m *admission) next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.news
}

// await waits a moment for a node to get its vote. It says whether one has.
func (s *Store) await(ctx context.Context, news <-chan struct{}) bool {
	timer := time.NewTimer(2 * s.rules.Timeout(s.maxTTL))
	defer timer.Stop()
	select {
	case <-news:
		return true
	case <-timer.C:
	case <-ctx.Done():
	case <-s.frame.Life().Done():
	}
	return false
}
