package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// TestSeveralCommands runs the program as several processes would: a warehouse, a shop, buyers, and Ctrl-C.
func TestSeveralCommands(t *testing.T) {
	warehouse := start(t, "warehouse", "--addr=127.0.0.1:0", "--items=20")
	shop := start(t, "serve", "--addr=127.0.0.1:0", "--store=memory:", "--work=1ms", "--stock-url="+warehouse.url)

	code, stdout, stderr := runHere(t, "buy", "--shops="+shop.url+"/", "--stock-url="+warehouse.url, "--buyers=4")
	if code != 0 || stderr != "" {
		t.Errorf("buy: exit code %d: %s", code, stderr)
	}
	for _, line := range []string{
		"in stock      20\n",
		"sold          20  in ",
		"sold out       4 ",
		"errors         0\n",
		"left           0  after 20 writes\n",
	} {
		if !strings.Contains(stdout, line) {
			t.Errorf("buy has no line %q:\n%s", line, stdout)
		}
	}
	if warning := shop.stop(); warning != memoryWarning+"\n" {
		t.Errorf("serve with a memory: store says %q on stderr", warning)
	}
	if warning := warehouse.stop(); warning != "" {
		t.Errorf("warehouse says %q on stderr", warning)
	}
}

// TestShopsShareAFile: two shops with nothing in common but a SQLite file sell what there is.
func TestShopsShareAFile(t *testing.T) {
	warehouse := start(t, "warehouse", "--addr=127.0.0.1:0", "--items=20")
	var shops []string
	var stops []func() string
	locks := "--store=sqlite:" + filepath.Join(t.TempDir(), "shops.db")
	for range 2 {
		shop := start(t, "serve", "--addr=127.0.0.1:0", locks, "--work=1ms", "--stock-url="+warehouse.url)
		shops, stops = append(shops, shop.url), append(stops, shop.stop)
	}
	code, stdout, stderr := runHere(t, "buy", "--shops="+strings.Join(shops, ","), "--stock-url="+warehouse.url, "--buyers=4")
	if code != 0 || stderr != "" || !strings.Contains(stdout, "sold          20  in ") {
		t.Errorf("buy: exit code %d: %s\n%s", code, stderr, stdout)
	}
	for _, stop := range append(stops, warehouse.stop) {
		if warning := stop(); warning != "" {
			t.Errorf("stderr has %q", warning)
		}
	}
}

func TestServeWithoutLockDoesNotWarn(t *testing.T) {
	shop := start(t, "serve", "--addr=127.0.0.1:0", "--no-lock", "--stock-url=http://127.0.0.1:1")
	if warning := shop.stop(); warning != "" {
		t.Errorf("stderr has %q", warning)
	}
}

func TestBuyFailsWhenOversold(t *testing.T) {
	m := openTestMarket(t, &plan{items: 1, shops: 2, work: meeting(2)})
	code, stdout, stderr := runHere(t, "buy", "--shops="+strings.Join(m.shops, ","), "--stock-url="+m.stock.url,
		"--buyers=2", "--requests=2")
	if code != 1 || !strings.Contains(stdout, "sold           2") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
	checkErrorLine(t, stderr, "OVERSOLD by 1: 2 sold, 1 in stock")
}

func TestBuyFailsWhenShopsDo(t *testing.T) {
	m := openTestMarket(t, &plan{items: 1})
	code, stdout, stderr := runHere(t, "buy", "--shops="+m.stock.url, "--stock-url="+m.stock.url, "--requests=3")
	if code != 1 || !strings.Contains(stdout, "errors         3  the first: "+m.stock.url+" answers 404") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
	checkErrorLine(t, stderr, "3 requests failed")
}

func openTestMarket(t *testing.T, p *plan) *market {
	t.Helper()
	m, err := openMarket(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// A process is a command that runs until it is stopped.
type process struct {
	url  string        // as it says itself
	stop func() string // as Ctrl-C does; returns what was on stderr
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	t.Cleanup(interrupt)
	reader, stdout := io.Pipe()
	var stderr bytes.Buffer
	exited := make(chan int, 1)
	go func() {
		defer stdout.Close()
		exited <- run(ctx, args, stdout, &stderr)
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatalf("%v ended before it listened, with exit code %d: %s", args, <-exited, &stderr)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(line), " at ")
	return &process{url: url, stop: func() string {
		interrupt()
		if code := <-exited; code != 0 {
			t.Errorf("%v: exit code %d", args, code)
		}
		return stderr.String()
	}}
}
