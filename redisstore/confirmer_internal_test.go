package redisstore

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/store"
)

// Nobody is led to a server that was replaced while he asked.
func TestNobodyIsLedAstray(t *testing.T) {
	s := newBase("nowhere", settings{}).newSentinels(rueidis.ClientOption{InitAddress: []string{"1"}})
	defer s.store.frame.End()
	for question, address := range []string{"a", "b"} {
		if _, err := s.believe(question+1, []saying{says(int64(question), address)}, newLost("nobody says", "sentinel ")); err != nil {
			t.Fatal(err)
		}
	}
	if s.lead(&ledConn{}, "a") || len(s.led) > 0 {
		t.Error("it leads to a, and b is the master")
	}
	if !s.lead(&ledConn{}, "b") || len(s.led) != 1 {
		t.Error("it does not lead to the master")
	}
}

// Who has left in plain mode does not come to wait again by an answer that comes late: nobody would unsubscribe it.
func TestPlainLeftDoesNotWait(t *testing.T) {
	p := &plainMode{bids: map[store.ID]*bid{}, subscriptions: rediskey.NewSubscriptions(1, "")}
	b := &bid{id: store.ID{1}, key: "left"}
	p.bids[b.id] = b
	p.drop(b)
	if p.waits(b); b.waiting || p.subscriptions.Waiting() > 0 {
		t.Errorf("it waits: %t, and %d are subscribed", b.waiting, p.subscriptions.Waiting())
	}
}
