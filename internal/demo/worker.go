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

// Work runs a worker process: it reads its order from in, sells until nothing is left, and writes reports to out. It
// also ends when in does, since then the coordinator is gone.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("holdfast: this command is started by holdfast demo, which sends it an order")
	}
	w := worker{out: json.NewEncoder(out), goOn: make(chan struct{})}
	if err := json.Unmarshal(lines.Bytes(), &w.order); err != nil {
		return fmt.Errorf("holdfast: the order of a demo worker is invalid: %w", err)
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
	if err := w.reportAndWait(ctx, report{Kind: ready}); err != nil {
		return err
	}
	for {
		done, err := w.serve(ctx)
		if err != nil || done == soldOut {
			return err
		}
	}
}

// serve acquires the lock, sells one item, and releases the lock.
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
	// The hold ends here at the latest, before the release: another worker may acquire the lock before release returns.
	r.Hold.End = min(now(), held.until())
	if err := errors.Join(err, held.release(ctx)); err != nil {
		return "", err
	}
	return r.Kind, w.out.Encode(r)
}

// sell reads the stock, takes payment, and writes the stock less one. It sets the outcome in r.
//
// It does not check its lease again before it writes, although Holdfast's would report that it is lost. A process can
// be stopped just after such a check, so the demo shows the worst case, in which only the fence helps.
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
	if err := w.reportAndWait(ctx, *r); err != nil {
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

// reportAndWait sends a report, and waits until the coordinator lets the worker continue.
func (w *worker) reportAndWait(ctx context.Context, r report) error {
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
