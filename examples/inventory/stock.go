package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// A stock is the warehouse as the shops see it, over HTTP.
type stock struct {
	url    string
	client *http.Client
}

func (s *stock) count(ctx context.Context) (int, error) { return s.number(ctx, "/stock") }

func (s *stock) writes(ctx context.Context) (int, error) { return s.number(ctx, "/writes") }

func (s *stock) set(ctx context.Context, count int) error {
	_, err := s.ask(ctx, http.MethodPut, "/stock", strconv.Itoa(count))
	return err
}

func (s *stock) close() { s.client.CloseIdleConnections() }

func (s *stock) number(ctx context.Context, path string) (int, error) {
	text, err := s.ask(ctx, http.MethodGet, path, "")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("the warehouse says %q, which is no number", text)
	}
	return n, nil
}

// ask sends a request. If ctx comes from a lease, the lease's token goes along.
func (s *stock) ask(ctx context.Context, method, path, body string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if token, ok := holdfast.TokenFrom(ctx); ok {
		r.Header.Set(tokenHeader, token.String())
	}
	status, text, err := send(s.client, r)
	if err != nil {
		return "", fmt.Errorf("the warehouse does not answer: %w", err)
	}
	if status != http.StatusOK && status != http.StatusNoContent {
		return "", fmt.Errorf("the warehouse refuses: %s", text)
	}
	return text, nil
}

// send sends a request and reads the answer to its end, so that the connection can be used again. Answers in
// this example are one line.
func send(client *http.Client, r *http.Request) (status int, text string, err error) {
	answer, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return 0, "", err
	}
	return answer.StatusCode, strings.TrimSpace(string(body)), nil
}
