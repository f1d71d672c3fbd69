package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// tokenHeader carries the fencing token of whoever reads or writes the stock under a lock.
const tokenHeader = "Fencing-Token"

// A warehouse keeps a count that anyone can read and write. It stands for a database without transactions: each
// request is safe by itself, but between one's read and one's write others can write too.
//
// It has a fence. A request with a token is refused if a newer token was seen. One without is not checked: shops
// without a lock have none to send.
type warehouse struct {
	gate fence.Gate

	mu     sync.Mutex
	count  int
	writes int
}

func (w *warehouse) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stock", w.getStock)
	mux.HandleFunc("PUT /stock", w.putStock)
	mux.HandleFunc("GET /writes", w.getWrites)
	return mux
}

func (w *warehouse) getStock(rw http.ResponseWriter, r *http.Request) {
	// The fence rises on the read that comes before the write. Otherwise a late writer could get in between.
	w.fenced(rw, r, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		fmt.Fprintln(rw, w.count)
	})
}

func (w *warehouse) putStock(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, 64))
	if err != nil {
		http.Error(rw, "the body is too long for a number", http.StatusBadRequest)
		return
	}
	count, err := strconv.Atoi(strings.TrimSpace(string(body)))
	if err != nil || count < 0 {
		http.Error(rw, "the body must be a number, and not negative", http.StatusBadRequest)
		return
	}
	w.fenced(rw, r, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.count = count
		w.writes++
		rw.WriteHeader(http.StatusNoContent)
	})
}

func (w *warehouse) getWrites(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(rw, w.writes)
}

// fenced answers a request unless its token is stale. Check and answer are one step.
func (w *warehouse) fenced(rw http.ResponseWriter, r *http.Request, answer func()) {
	header := r.Header.Get(tokenHeader)
	if header == "" {
		answer()
		return
	}
	token, err := holdfast.ParseToken(header)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	if err := w.gate.Do(token, func() error { answer(); return nil }); err != nil {
		http.Error(rw, err.Error(), http.StatusPreconditionFailed)
	}
}

func warehouseCommand(ctx context.Context, args []string, out, _ io.Writer) error {
	fs := newFlags("warehouse",
		"Keeps the stock. GET /stock reads it, PUT /stock sets it, GET /writes counts how often it was set.",
		"inventory warehouse --addr 127.0.0.1:8080 --items 100")
	addr := fs.String("addr", "127.0.0.1:8080", "`host:port` to listen on")
	items := fs.Int("items", 100, "how many items there are at the start")
	if err := parse(fs, args, out); err != nil {
		return err
	}
	if err := atLeast(fs, "items", *items, 0); err != nil {
		return err
	}
	w := &warehouse{count: *items}
	s, err := openSite(*addr, w.handler())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "warehouse with %d items at %s\n", *items, s.url)
	return s.run(ctx)
}
