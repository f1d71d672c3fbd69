package main

import (
	"context"
	"fmt"
	"io"
	"strings"
)

const buyAbout = `Buys over HTTP, at all shops in turn, until nothing is left or all requests are sent.
Then it asks the warehouse what is left. It fails if more was sold than there was, or if
requests failed. Nobody else should buy at the same time.`

func buyCommand(ctx context.Context, args []string, out, _ io.Writer) error {
	fs := newFlags("buy", buyAbout,
		"inventory buy --shops http://127.0.0.1:8081,http://127.0.0.1:8082 --stock-url http://127.0.0.1:8080")
	rawShops := fs.String("shops", "", "`URLs` of the shops, with commas between")
	rawStockURL := fs.String("stock-url", "", "`URL` of the warehouse")
	buyers := fs.Int("buyers", 32, "how many buy at a time")
	requests := fs.Int("requests", 1000, "how many requests are sent at most")
	if err := parse(fs, args, out); err != nil {
		return err
	}
	var shops []string
	for raw := range strings.SplitSeq(*rawShops, ",") {
		shop, err := baseURL(fs, "shops", strings.TrimSpace(raw))
		if err != nil {
			return err
		}
		shops = append(shops, shop)
	}
	stockURL, err := baseURL(fs, "stock-url", *rawStockURL)
	if err != nil {
		return err
	}
	if err := atLeast(fs, "buyers", *buyers, 1); err != nil {
		return err
	}
	if err := atLeast(fs, "requests", *requests, 1); err != nil {
		return err
	}
	return buyAndReport(ctx, stockURL, &crowd{shops, *buyers, *requests}, out)
}

func buyAndReport(ctx context.Context, stockURL string, c *crowd, out io.Writer) error {
	s := &stock{stockURL, newHTTPClient(1)}
	defer s.close()
	a, err := settle(ctx, s, c)
	if err != nil {
		return err
	}
	printAccount(out, &a)
	if n := a.oversold(); n > 0 {
		return fmt.Errorf("OVERSOLD by %d: %d sold, %d in stock", n, a.sold, a.before)
	}
	if a.failed > 0 {
		return fmt.Errorf("%d requests failed", a.failed)
	}
	return nil
}
