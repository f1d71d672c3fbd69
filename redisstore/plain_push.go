package redisstore

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/store"
)

// channel is where the release of a key is published.
func (p *plainMode) channel(key string) string { return p.base.keys.pushes + "freed:" + key }

// listen stays subscribed to the releases that bids wait for until the store is closed.
func (p *plainMode) listen() {
	p.subscriptions.Listen(p.base.frame.Life(), 0, func(ctx context.Context) (rediskey.Conn, error) {
		return p.pushes(ctx)
	})
}

// Subscribed implements rediskey.Waiter.
func (b *bid) Subscribed() { b.Released(0) }

// Released implements rediskey.Waiter: it tells the bid to try again. To one that has the lock it says nothing.
func (b *bid) Released(int) {
	b.plain.base.frame.Push(b.id, store.Status{State: store.Waiting, Ahead: -1})
}
