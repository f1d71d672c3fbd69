package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

const (
	// lockName is the packet's lock. A lock for each user would stop a user's second click, but two users could
	// still get the same share. What a draw changes is the packet, so the packet is what it locks.
	lockName = "redpacket:2026-02-17"

	// patience is how long a click waits for its turn.
	patience = 5 * time.Second
)

// Why a click brings nothing.
var (
	errDrewBefore = errors.New("you have drawn already")
	errEmpty      = errors.New("all shares are drawn")
	errBusy       = errors.New("busy, try again")
)

// A host lets users draw from a packet.
type host struct {
	locks  *holdfast.Client // nil: without a lock
	packet *packet
	work   func(context.Context) error // what a draw takes between read and write
}

// draw waits for the user's turn, and draws.
func (h *host) draw(ctx context.Context, user int) error {
	if h.locks == nil {
		return h.take(ctx, user)
	}
	return h.locks.Mutex(lockName, holdfast.WithWait(patience)).Do(ctx, func(ctx context.Context) error {
		return h.take(ctx, user)
	})
}

// drawNow draws if nobody else is at it, and is otherwise errBusy at once. It is for clicks not worth a place in
// the line, because the same user probably has one.
func (h *host) drawNow(ctx context.Context, user int) error {
	if h.locks == nil {
		return h.take(ctx, user)
	}
	lease, err := h.locks.Mutex(lockName).TryLock(ctx)
	if errors.Is(err, holdfast.ErrLocked) {
		return errBusy
	}
	if err != nil {
		return err // the store failed: that says nothing of the packet
	}
	defer lease.Unlock(ctx)
	return h.take(lease.Context(), user)
}

// take looks, works, and writes. Two at a time would see the same.
func (h *host) take(ctx context.Context, user int) error {
	if h.packet.hasDrawn(user) {
		return errDrewBefore
	}
	share, ok := h.packet.nextShare()
	if !ok {
		return errEmpty
	}
	if err := h.work(ctx); err != nil {
		return err
	}
	// The token numbers the draws. A database would also check it, and refuse one that is smaller than the last
	// it saw: package fence.
	token, _ := holdfast.TokenFrom(ctx)
	h.packet.record(draw{user, share, token})
	return nil
}

// pause makes work that takes a while. It ends early if the lease is lost.
func pause(takes time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// An outcome counts what came of clicks.
type outcome struct {
	drew    int
	late    int // all shares were drawn
	again   int // the user had drawn before
	busy    int
	failed  int
	failure error // the first one
}

// clickTwice lets every user click twice, all at once. The first click waits for its turn, the second does not.
func clickTwice(ctx context.Context, h *host, users int) outcome {
	var (
		mu  sync.Mutex
		all outcome
		wg  sync.WaitGroup
	)
	for user := range users {
		for _, click := range []func(context.Context, int) error{h.draw, h.drawNow} {
			wg.Go(func() {
				err := click(ctx, user)
				mu.Lock()
				defer mu.Unlock()
				all.count(err)
			})
		}
	}
	wg.Wait()
	return all
}

func (o *outcome) count(err error) {
	switch {
	case err == nil:
		o.drew++
	case errors.Is(err, errEmpty):
		o.late++
	case errors.Is(err, errDrewBefore):
		o.again++
	case errors.Is(err, errBusy):
		o.busy++
	default:
		o.failed++
		if o.failure == nil {
			o.failure = err
		}
	}
}
