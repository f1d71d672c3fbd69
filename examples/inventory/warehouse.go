package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// A warehouse keeps a count that anyone can read and write. It stands for a database without transactions: each
// request is safe by itself, but between one's read and one's write others can write too.
//
// It has a fence. A request with a token is refused if a newer token was seen. One without is not checked: shops
// without a lock have none to send.
type warehouse struct {
	gate fence.Gate

	mu    sync.Mutex
	count int
}

func (w *warehouse) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stock", w.getStock)
	mux.HandleFunc("PUT /stock", w.putStock)
	// Reads are fenced too. Otherwise a late writer could get in between the read and the write of the next one.
	fenced := fence.Middleware(mux, fence.GateGuard(func(*http.Request) *fence.Gate { return &w.gate }))
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get(fence.Header) == "" {
			mux.ServeHTTP(rw, r)
		} else {
			fenced.ServeHTTP(rw, r)
		}
	})
}

func (w *warehouse) getStock(rw http.ResponseWriter, _ *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintln(rw, w.count)
}

func (w *warehouse) putStock(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, 64))
	count, notNumber := strconv.Atoi(strings.TrimSpace(string(body)))
	if err != nil || notNumber != nil || count < 0 {
		http.Error(rw, "the body must be a number, and not negative", http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count = count
}

// A stock is the warehouse as its clients see it.
type stock struct {
	url    string
	client *http.Client
}

// newStock makes a client that sends the token of the lease whose context a request has.
func newStock(url string) *stock {
	return &stock{url, &http.Client{Transport: &fence.RoundTripper{Base: transport()}, Timeout: 30 * time.Second}}
}

func (s *stock) count(ctx context.Context) (int, error) {
	text, err := s.ask(ctx, http.MethodGet, "")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (s *stock) set(ctx context.Context, count int) error {
	_, err := s.ask(ctx, http.MethodPut, strconv.Itoa(count))
	return err
}

func (s *stock) ask(ctx context.Context, method, body string) (string, error) {
	status, text, err := send(ctx, s.client, method, s.url+"/stock", body)
	switch {
	case errors.Is(err, holdfast.ErrStale):
		return "", fmt.Errorf("the warehouse refuses: %w", err)
	case err != nil:
		return "", fmt.Errorf("the warehouse does not answer: %w", err)
	case status != http.StatusOK:
		return "", fmt.Errorf("the warehouse refuses: %s", text)
	}
	return text, nil
}

// send sends a request and reads the answer to its end, so that the connection can be used again.
func send(ctx context.Context, c *http.Client, method, url, body string) (status int, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	answer, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	return answer.StatusCode, strings.TrimSpace(string(all)), err
}

// transport keeps a connection for each of many requests at a time. Whoever makes one closes its idle connections: a
// server that shuts down would wait for them.
func transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 1000
	return t
}
