package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-go/holdfast"
)

// Work is what a worker process does: it reads its order from in, sells until nothing is left, and tells out about
// it. It also ends when in does, since then the coordinator is gone.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("holdfast: this command is for holdfast demo, which starts it and tells it what to do")
	}
	w := worker{out: json.NewEncoder(out), goOn: make(chan struct{})}
	if err := json.Unmarshal(lines.Bytes(), &w.order); err != nil {
		return fmt.Errorf("holdfast: a demo worker does not understand its order: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		for lines.Scan() {
			select {
			case w.goOn <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return w.work(ctx)
}

// A worker is one process that sells.
type worker struct {
	order order
	stock *stock
	lock  lock
	out   *json.Encoder
	goOn  chan struct{}
}

func (w *worker) work(ctx context.Context) (err error) {
	if w.stock, err = openStock(w.order.Stock, w.order.Fence); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stock.close()) }()
	if w.lock, err = openLock(ctx, &w.order, w.stock.db); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.lock.close()) }()
	if err := w.sayAndWait(ctx, report{Kind: ready}); err != nil {
		return err
	}
	for {
		done, err := w.serve(ctx)
		if err != nil || done == soldOut {
			return err
		}
	}
}

// serve takes the lock, sells one item, and gives the lock back.
func (w *worker) serve(ctx context.Context) (done reportKind, err error) {
	if err := w.out.Encode(report{Kind: waiting}); err != nil {
		return "", err
	}
	held, err := w.lock.acquire(ctx)
	if err != nil {
		return "", err
	}
	r := report{Hold: span{Begin: now(), End: held.until()}}
	err = w.sell(ctx, held.token, &r)
	// The belief ends here at the latest, before the release: others may be inside before release returns.
	r.Hold.End = min(now(), held.until())
	if err := errors.Join(err, held.release(ctx)); err != nil {
		return "", err
	}
	return r.Kind, w.out.Encode(r)
}

// sell reads the stock, takes payment, and writes the stock less one. r says what came of it.
//
// It does not ask its lease again before it writes, though Holdfast's would tell it that it is too late. Whoever asks
// can be stopped just after the answer, so the demo shows the worst case: what is left then is the fence.
func (w *worker) sell(ctx context.Context, token holdfast.Token, r *report) (err error) {
	r.Item, err = w.stock.read(ctx, token)
	switch {
	case errors.Is(err, holdfast.ErrStale):
		r.Kind = late
		return nil
	case err != nil:
		return err
	case r.Item == 0:
		r.Kind = soldOut
		return nil
	}
	r.Kind = paying
	if err := w.sayAndWait(ctx, *r); err != nil {
		return err
	}
	err = w.stock.sell(ctx, token, r.Item, w.order.Worker)
	if errors.Is(err, holdfast.ErrStale) {
		r.Kind = refused
		return nil
	}
	r.Kind = sold
	return err
}

// sayAndWait reports, and waits for the word to go on.
func (w *worker) sayAndWait(ctx context.Context, r report) error {
	if err := w.out.Encode(r); err != nil {
		return err
	}
	select {
	case <-w.goOn:
		return nil
	case <-ctx.Done():
		return errors.New("holdfast: the demo has ended before its worker")
	}
}
