package redisstore_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/redisstore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/grant"
)

// TestModel plays random programs on one line, and compares what the scripts make of it with package line.
func TestModel(t *testing.T) {
	t.Parallel()
	server, s := newServer(t, "")
	for seed := range uint64(20) {
		m := &model{t: t, s: s, random: rand.New(rand.NewPCG(seed, 5)), name: "model", limit: int32(1 + seed%7)}
		for range 40 {
			m.step()
			if m.check(); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		for len(m.claims) > 0 {
			m.leave()
		}
		m.check()
		if n := do(t, server, append([]string{"EXISTS"}, redisstore.KeysOf("", m.name)...)...); n != "0" {
			t.Fatalf("seed %d: the line is empty, and %s keys of it are left", seed, n)
		}
	}
}

// A model is what a queue should be.
type model struct {
	t      *testing.T
	s      *redisstore.Store
	random *rand.Rand
	name   string
	limit  int32
	claims []store.Claim // in order
}

func (m *model) step() {
	switch n := m.random.IntN(10); {
	case n < 5 || len(m.claims) == 0:
		m.join()
	case n < 7:
		m.leave()
	case n < 8:
		m.shrink()
	case n < 9:
		m.transfer()
	default:
		m.breakOne()
	}
}

// held is how many of these are held.
func held(claims []store.Claim) int {
	return grant.Held(func(yield func(store.Demand) bool) {
		for _, c := range claims {
			if !yield(c.Demand) {
				return
			}
		}
	})
}

func (m *model) join() {
	c := claim(m.name)
	c.Demand = store.Demand{Kind: store.Semaphore, Limit: m.limit}
	if m.random.IntN(3) == 0 {
		c.Limit = 1 + m.random.Int32N(7)
	}
	c.Units = 1 + m.random.Int32N(c.Limit)
	c.Try, c.AnyLimit = m.random.IntN(3) == 0, m.random.IntN(2) == 0
	if len(m.claims) > 0 && grant.Mismatch(m.claims[0].Demand, c.Demand, c.AnyLimit) {
		_, err := m.s.Join(m.t.Context(), c)
		mismatch, ok := errors.AsType[*store.MismatchError](err)
		if !ok || mismatch.InUse.Limit != m.claims[0].Limit {
			m.t.Errorf("a limit of %d behind a claim with %d: %v", c.Limit, m.claims[0].Limit, err)
		}
		return
	}
	after := append(slices.Clone(m.claims), c)
	want := store.Waiting
	if held(after) == len(after) {
		want = store.Held
	} else if c.Try {
		want = store.Gone
	}
	testkit.Join(m.t, m.s, &c, want)
	if want != store.Gone {
		m.claims = append(m.claims, c)
	}
	other := claim(m.name)
	if _, err := m.s.Join(m.t.Context(), other); len(m.claims) > 0 && !errors.Is(err, store.ErrMismatch) {
		m.t.Errorf("a mutex among semaphores: %v, want %v", err, store.ErrMismatch)
	} else if len(m.claims) == 0 {
		testkit.Leave(m.t, m.s, other)
	}
}

func (m *model) leave() {
	i := m.random.IntN(len(m.claims))
	testkit.Leave(m.t, m.s, m.claims[i])
	m.claims = slices.Delete(m.claims, i, i+1)
}

func (m *model) shrink() {
	c := &m.claims[m.random.IntN(len(m.claims))]
	asked := *c
	asked.Units = 1 + m.random.Int32N(m.limit)
	asked.Turn++
	testkit.Ask(m.t, m.s, asked)
	c.Units, c.Turn = min(c.Units, asked.Units), asked.Turn
}

// transfer detaches a claim that is held, and mostly attaches it again.
func (m *model) transfer() {
	held := held(m.claims)
	if held == 0 {
		return
	}
	c := &m.claims[m.random.IntN(held)]
	*c = detach(m.t, m.s, *c, ttl)
	if m.random.IntN(3) > 0 {
		heir := heirOf(*c)
		heir.Turn = c.Turn + 1
		attach(m.t, m.s, heir, c.ID, store.Held)
		*c = heir
	}
}

func (m *model) breakOne() {
	i := m.random.IntN(len(m.claims))
	if err := m.s.Break(m.t.Context(), m.name, m.claims[i].Ticket); err != nil {
		m.t.Errorf("Break: %v", err)
	}
	m.claims = slices.Delete(m.claims, i, i+1)
}

func (m *model) check() {
	m.t.Helper()
	l, err := m.s.Queue(m.t.Context(), m.name)
	if err != nil || len(l.Entries) != len(m.claims) {
		m.t.Fatalf("the line has %d places, want %d; %v", len(l.Entries), len(m.claims), err)
	}
	held := held(m.claims)
	for i, p := range l.Entries {
		want, c := store.Waiting, m.claims[i]
		if i < held {
			want = store.Held
		}
		if p.ID != c.ID || p.Demand != c.Demand || p.Turn != c.Turn || p.State != want {
			m.t.Errorf("place %d is %v for %+v, %v; want %v for %+v, %v", i, p.ID, p.Demand, p.State, c.ID, c.Demand,
				want)
		}
	}
	for i, c := range m.claims {
		standing := testkit.Ask(m.t, m.s, c)
		if (standing.State == store.Held) != (i < held) || standing.Ahead != i {
			m.t.Errorf("claim %d of which %d are held is %v with %d ahead", i, held, standing.State, standing.Ahead)
		}
	}
}
