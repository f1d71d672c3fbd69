package rediskey

import (
	"slices"
	"strconv"
	"testing"
)

// A waiter counts releases.
type waiter struct{ released int }

func (w *waiter) Subscribed()  {}
func (w *waiter) Released(int) { w.released++ }

// TestSubscriptions: a channel is subscribed at the nodes that waiters name, stays when it is idle, and is left when
// many are. A waiter that comes back just then is told that it may have missed a release.
func TestSubscriptions(t *testing.T) {
	s := NewSubscriptions(2, "freed:")
	at := []map[string]bool{{}, {}} // over one connection to each node
	changes := func(node int, stale, fresh, ready int) {
		t.Helper()
		left, added, told := s.changes(node, at[node])
		if len(left) != stale || len(added) != fresh || len(told) != ready {
			t.Errorf("node %d: %q is left, %q is new, waiters of %q are told", node, left, added, told)
		}
	}
	var w waiter
	s.Join("lock", &w)
	changes(0, 0, 0, 0)
	s.Add("lock", &w, 1)
	s.Add("lock", &w, 1)
	changes(0, 0, 0, 0)
	changes(1, 0, 1, 1)
	s.Message(1, "freed:lock")
	s.Message(1, "freed:other")
	s.Message(1, "lock")
	if w.released != 1 {
		t.Errorf("told of %d releases, want 1", w.released)
	}
	s.Remove("lock", &w)
	changes(1, 0, 0, 0)
	s.Join("lock", &w) // it is still subscribed
	if !slices.Equal(s.waiters("lock"), []Waiter{&w}) || s.Waiting() != 1 {
		t.Error("it does not wait again")
	}
	s.Remove("lock", &w)
	for i := range mostIdle {
		s.Add(strconv.Itoa(i), &w, 0)
		s.Remove(strconv.Itoa(i), &w)
	}
	s.Join("lock", &w) // too late
	if s.Waiting() != 0 {
		t.Error("it waits for what is about to be left")
	}
	s.Add("lock", &w, 1)
	changes(0, 0, 0, 0) // all were idle before they were subscribed
	changes(1, 0, 0, 1) // nothing was left yet, and it may have missed a release
	s.Remove("lock", &w)
	for i := range mostIdle {
		s.Add(strconv.Itoa(i), &w, 0)
		changes(0, 0, 1, 1)
		s.Remove(strconv.Itoa(i), &w)
	}
	changes(0, mostIdle, 0, 0)
	changes(1, 1, 0, 0)
}
