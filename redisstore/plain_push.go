package redisstore

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/rediskey"
	"github.com/holdfast-go/holdfast/store"
)

// channel returns the channel on which the release of a key is published.
func (p *plainMode) channel(key string) string { return p.base.keys.pushes + "freed:" + key }

// listen stays subscribed to the releases that claims wait for until the store is closed.
func (p *plainMode) listen() {
	p.subscriptions.Listen(p.base.frame.Life(), 0, func(ctx context.Context) (rediskey.Conn, error) {
		return p.pushes(ctx)
	})
}

// Subscribed implements rediskey.Waiter.
func (b *plainClaim) Subscribed() { b.Released(0) }

// Released implements rediskey.Waiter: it notifies a claim that waits, so that it tries again.
func (b *plainClaim) Released(int) {
	b.plain.base.frame.Push(b.id, store.Status{State: store.Waiting, Ahead: -1})
}
