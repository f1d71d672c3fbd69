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
	p.subscriptions.Listen(p.base.frame.Life(), 0, func(ctx context.Context) (w rediskey.Conn, err error) {
		err = p.topology.each(ctx, func(n *node) error {
			w, err = n.pushes.Get(ctx)
			return err
		})
		return w, err
	})
}

// Subscribed implements rediskey.Waiter.
func (b *plainClaim) Subscribed() { b.Released(0) }

// Released implements rediskey.Waiter: it notifies a claim that waits, so that it tries again.
func (b *plainClaim) Released(int) {
	b.plain.base.frame.Push(b.id, store.Status{State: store.Waiting, Ahead: -1})
}
