package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

const demoAbout = `Opens a warehouse and three shops on free ports of this machine, and lets 32 buyers buy
over HTTP: first without a lock, then with one. It fails if the lock let the shops oversell,
or if there was nothing to see without it.

The shops share a memory: store. That works because they are in one process, each with a
client of its own, as processes would have. For shops in several processes see
inventory serve --help.`

// A plan says how large a round is.
type plan struct {
	items    int
	shops    int
	buyers   int
	requests int
	work     func(context.Context) error
	store    string // URL of the locks; empty: no lock
}

func demoCommand(ctx context.Context, args []string, out, _ io.Writer) error {
	fs := newFlags("demo", demoAbout, "inventory demo")
	if err := parse(fs, args, out); err != nil {
		return err
	}
	const sale = 5 * time.Millisecond
	p := plan{items: 100, shops: 3, buyers: 32, requests: 400, work: payment(sale)}
	fmt.Fprintf(out, "%d items, %d shops, %d buyers, up to %d requests.\n", p.items, p.shops, p.buyers, p.requests)
	fmt.Fprintf(out, "A sale reads the stock, takes %v, and writes the stock less one.\n\n", sale)

	without, err := p.run(ctx)
	if err != nil {
		return err
	}
	p.store = "memory:inventory-demo"
	with, err := p.run(ctx)
	if err != nil {
		return err
	}
	printRounds(out, &without, &with)
	return verdict(&without, &with)
}

// verdict checks that the demo showed what it is for.
func verdict(without, with *account) error {
	for _, a := range []*account{without, with} {
		if a.failed > 0 {
			return fmt.Errorf("%d requests failed, the first: %w", a.failed, a.failure)
		}
	}
	switch {
	case with.oversold() > 0:
		return fmt.Errorf("the shops oversold by %d with the lock", with.oversold())
	case with.sold != with.before || with.left != 0:
		return fmt.Errorf("with the lock %d of %d were sold and %d are left", with.sold, with.before, with.left)
	case without.oversold() == 0:
		return errors.New("the shops did not oversell without the lock, so nothing was shown")
	}
	return nil
}

// run opens a market, lets the buyers in, and closes it.
func (p *plan) run(ctx context.Context) (a account, err error) {
	m, err := openMarket(ctx, p)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	return settle(ctx, m.stock, &crowd{m.shops, p.buyers, p.requests})
}
