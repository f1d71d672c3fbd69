package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/redlock/internal/vote"
	"github.com/holdfast-go/holdfast/store"
)

// An admission drives the state machine that gives nodes their vote back.
type admission struct {
	store *Store
	timer *time.Timer

	mu      sync.Mutex
	machine *vote.Admitter
	voted   chan struct{} // closed and replaced when a node has its vote back
}

func newAdmission(s *Store) *admission {
	m := &admission{store: s, machine: vote.NewAdmitter(&s.rules), voted: make(chan struct{})}
	m.timer = newTimer(m.wake)
	return m
}

// observe reads the answer of a node to any request: its mark, and whether the node needs one. Other answers do not
// concern an admission.
func (s *Store) observe(node int, a *vote.Answer) {
	if !store.FloorTooHigh(a.Mark, time.Now()) { // otherwise no other node would accept the predicted ticket
		s.guess.Saw(s.now(), a.Mark)
	}
	if s.admission != nil && a.NeedsMark() {
		m := s.admission
		m.mu.Lock()
		defer m.mu.Unlock()
		m.follow(m.machine.Notice(s.now(), node, a))
	}
}

// follow carries out a step of the machine. The caller holds mu.
func (m *admission) follow(step vote.Step) {
	m.store.post(m, step.Send, nil)
	m.store.setTimer(m.timer, step.Wake)
}

// answer implements requester.
func (m *admission) answer(r *nodeRequest, a vote.Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.follow(m.machine.Answer(m.store.now(), r.Node, r.Seq, a))
	if r.Request.Op != vote.Admit {
		return
	}
	if m.store.nodes[r.Node].admitErr.Store(nil); a.Code == vote.Failed {
		m.store.nodes[r.Node].admitErr.Store(&a.Err)
	}
	if a.Votes { // from us, or from another client just before
		close(m.voted)
		m.voted = make(chan struct{})
	}
}

// stop stops the timer. It is for Close.
func (m *admission) stop() {
	if m == nil {
		return // of a function for operators
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

// nextVote returns a channel that is closed when the next node has its vote back.
func (m *admission) nextVote() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.voted
}

// awaitVote waits a moment for a node to have its vote back, and reports whether one has.
func (s *Store) awaitVote(ctx context.Context, news <-chan struct{}) bool {
	select {
	case <-news:
		return true
	case <-time.After(2 * s.rules.Timeout(s.maxTTL)):
	case <-ctx.Done():
	case <-s.frame.Life().Done():
	}
	return false
}
