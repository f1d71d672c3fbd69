package main

import (
	"context"
	"errors"
	"sync"
)

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
