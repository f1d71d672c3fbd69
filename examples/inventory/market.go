package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/holdfast-go/holdfast"
)

// A market is a warehouse and its shops, each on a port of its own.
type market struct {
	stock   *stock
	shops   []string       // URLs
	closers []func() error // in the order of opening
}

func openMarket(ctx context.Context, p *plan) (*market, error) {
	m := &market{}
	url, err := m.open((&warehouse{count: p.items}).handler())
	if err != nil {
		return nil, err
	}
	m.stock = &stock{url, newHTTPClient(1)}
	m.closers = append(m.closers, func() error { m.stock.close(); return nil })
	for n := range p.shops {
		if err := m.openShop(ctx, p, fmt.Sprintf("shop %d", n+1)); err != nil {
			return nil, errors.Join(err, m.close())
		}
	}
	return m, nil
}

// openShop adds a shop with its own connection to the locks, as if it were a process.
func (m *market) openShop(ctx context.Context, p *plan, label string) error {
	var locks *holdfast.Client
	if p.store != "" {
		var err error
		if locks, err = holdfast.Open(ctx, p.store, holdfast.Label(label)); err != nil {
			return err
		}
	}
	s := newShop(locks, m.stock.url, p.work)
	m.closers = append(m.closers, s.close)
	url, err := m.open(s.handler())
	if err != nil {
		return err
	}
	m.shops = append(m.shops, url)
	return nil
}

// open starts a site on a free port and returns its URL.
func (m *market) open(handler http.Handler) (string, error) {
	s, err := openSite("127.0.0.1:0", handler)
	if err != nil {
		return "", err
	}
	m.closers = append(m.closers, s.close)
	return s.url, nil
}

// close closes last what was opened first: a shop needs the warehouse for the sales that are under way.
func (m *market) close() error {
	var err error
	for _, closer := range slices.Backward(m.closers) {
		err = errors.Join(err, closer())
	}
	return err
}
