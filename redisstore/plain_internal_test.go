package redisstore

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/store"
)

// Who has left in plain mode does not come to wait again by an answer that comes late: nobody would unsubscribe it.
func TestPlainLeftDoesNotWait(t *testing.T) {
	p := &plainMode{bids: map[store.ID]*plainClaim{}, subscriptions: rediskey.NewSubscriptions(1, "")}
	b := &plainClaim{id: store.ID{1}, key: "left"}
	p.bids[b.id] = b
	p.drop(b)
	if p.waits(b); b.waiting || p.subscriptions.Waiting() > 0 {
		t.Errorf("it waits: %t, and %d are subscribed", b.waiting, p.subscriptions.Waiting())
	}
}
