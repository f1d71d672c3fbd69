package redisstore

import (
	"errors"
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediswire"
	"github.com/holdfast-go/holdfast/store"
)

// A confirmer asks after whoever is pushed while he is known to wait, also if the push came before the answer to his Join, and
// never after one who has left: nobody would forget him again.
func TestConfirmerForgets(t *testing.T) {
	waiting := store.Standing{State: store.Waiting, Ticket: 7}
	for _, test := range []struct {
		what       string
		steps      func(*confirmer, *store.Claim)
		asks, left int // how many are asked after, and remembered then
	}{
		{"pushed while it waits", func(c *confirmer, own *store.Claim) { c.saw(own, waiting, nil); c.pushed(own.ID) }, 1, 1},
		{"pushed before the answer", func(c *confirmer, own *store.Claim) {
			c.pushed(own.ID)
			<-c.due
			c.take() // too early
			c.saw(own, waiting, nil)
		}, 1, 1},
		{"pushed and not answered", func(c *confirmer, own *store.Claim) { c.pushed(own.ID) }, 0, 1},
		{"its Join failed", func(c *confirmer, own *store.Claim) {
			c.pushed(own.ID)
			c.saw(own, store.Standing{}, errors.New("cut"))
		}, 0, 0},
		{"its Keep failed", func(c *confirmer, own *store.Claim) {
			c.saw(own, waiting, nil)
			c.saw(own, store.Standing{}, errors.New("cut"))
			c.pushed(own.ID)
		}, 1, 1},
		{"it holds", func(c *confirmer, own *store.Claim) {
			c.pushed(own.ID)
			c.saw(own, store.Standing{State: store.Held}, nil)
		}, 0, 0},
		{"it has left, and an answer comes late", func(c *confirmer, own *store.Claim) {
			c.pushed(own.ID)
			c.forget(own.ID)
			c.saw(own, waiting, nil)
			c.pushed(own.ID)
		}, 0, 0},
	} {
		c := newConfirmer()
		own := store.Claim{ID: store.ID{1}}
		c.joining(own)
		test.steps(c, &own)
		due := len(c.due)
		asked := c.take()
		if len(asked) != test.asks || len(c.stand) != test.left || test.asks > 0 && (due == 0 || asked[0].Ticket != 7) {
			t.Errorf("%s: asks after %+v (due %d), and remembers %d", test.what, asked, due, len(c.stand))
		}
	}
}

// Leave makes a store forget the claim, whether or not that works.
func TestLeaveIsNotConfirmed(t *testing.T) {
	s := newStore("nowhere", settings{replicaSettings: replicaSettings{1, defaultPatience}})
	client, err := rediswire.NewClient(s.frame.Life(), dialTimeout, rueidis.ClientOption{InitAddress: []string{"nowhere:1"}}, s.way.Dial)
	if err != nil {
		t.Fatal(err)
	}
	s.setHome(client, true)
	defer s.Close()
	own := store.Claim{ID: store.ID{1}, Name: "left", TTL: defaultPatience}
	s.confirmer.joining(own)
	s.home.commands.Unplug() // nothing is sent
	if err := s.Leave(t.Context(), own); err == nil || len(s.confirmer.stand) > 0 {
		t.Errorf("%v, and %d are remembered", err, len(s.confirmer.stand))
	}
}

// Nobody is led to a server that was replaced while he asked.
func TestNobodyIsLedAstray(t *testing.T) {
	s := newStore("nowhere", settings{}).newSentinels(rueidis.ClientOption{InitAddress: []string{"1"}})
	defer s.store.frame.End()
	for question, address := range []string{"a", "b"} {
		if _, err := s.believe(question+1, []saying{says(int64(question), address)}, newLost("nobody says")); err != nil {
			t.Fatal(err)
		}
	}
	if s.lead(&ledConn{}, "a") || len(s.open) > 0 {
		t.Error("it leads to a, and b is the master")
	}
	if !s.lead(&ledConn{}, "b") || len(s.open) != 1 {
		t.Error("it does not lead to the master")
	}
}

// Who has left in plain mode does not come to wait again by an answer that comes late: nobody would close its ear.
func TestPlainLeftDoesNotWait(t *testing.T) {
	p := &Plain{bids: map[store.ID]*bid{}}
	p.ears.init()
	b := &bid{id: store.ID{1}, key: "left"}
	p.bids[b.id] = b
	p.drop(b)
	if p.waits(b); b.waiting || len(p.ears.of) > 0 {
		t.Errorf("it waits: %t, with %d ears", b.waiting, len(p.ears.of))
	}
}
