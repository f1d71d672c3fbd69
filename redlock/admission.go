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
	place // the rota's
	store *Store

	mu      sync.Mutex
	machine *vote.Admitter
	news    chan struct{} // closed and made anew when a node has got its vote
}

func newAdmission(s *Store) *admission {
	return &admission{place: offDuty(), store: s, machine: vote.NewAdmitter(&s.rules), news: make(chan struct{})}
}

// notice looks at the answer of a node, whoever asked: for its mark, and whether it needs one. What others say is of no
// interest to an admission.
func (s *Store) notice(node int, a *vote.Answer) {
	if !store.FloorTooHigh(a.Mark, time.Now()) { // or no node but that one would ever accept what is foretold
		s.guess.Saw(s.rota.now(), a.Mark)
	}
	if s.admission != nil && a.NeedsMark() {
		s.admission.step(func(m *vote.Admitter, now time.Duration) vote.Step { return m.Notice(now, node, a) })
	}
}

func (m *admission) step(step func(*vote.Admitter, time.Duration) vote.Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := step(m.machine, m.store.rota.now())
	m.store.post(m, next.Send, nil)
	m.store.rota.set(m, next.Wake)
}

// answer implements machine.
func (m *admission) answer(node int, e *errand, a vote.Answer) {
	m.step(func(machine *vote.Admitter, now time.Duration) vote.Step { return machine.Answer(now, node, e.seq, a) })
	if e.request.Op != vote.Admit {
		return
	}
	if m.store.nodes[node].unvoted.Store(nil); a.Code == vote.Failed {
		m.store.nodes[node].unvoted.Store(&a.Err)
	}
	if a.Votes { // by us, or by somebody else just before
		m.mu.Lock()
		close(m.news)
		m.news = make(chan struct{})
		m.mu.Unlock()
	}
}

// wake implements sleeper.
func (m *admission) wake(time.Duration) {
	m.step(func(machine *vote.Admitter, now time.Duration) vote.Step { return machine.Wake(now) })
}

// next is closed when a node has got its vote.
func (m *admission) next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.news
}

// await waits a moment for a node to get its vote. It says whether one has.
func (s *Store) await(ctx context.Context, news <-chan struct{}) bool {
	timer := time.NewTimer(2 * s.timeoutOf(s.maxTTL))
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
