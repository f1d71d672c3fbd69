package fence_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// transport is an http.RoundTripper made of a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A body says whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

func TestRoundTripperSendsTheToken(t *testing.T) {
	lease := testkit.Lock(t, newLocks(t), "ledger")
	var got []string
	rt := &fence.RoundTripper{Base: transport(func(req *http.Request) (*http.Response, error) {
		got = req.Header.Values(fence.Header)
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})}
	plain, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost", nil)
	testkit.Must(t, err)
	leased := plain.Clone(lease.Context())
	chosen := leased.Clone(lease.Context())
	chosen.Header.Set(fence.Header, "2304")
	bare := leased.Clone(lease.Context())
	bare.Header = nil
	cases := map[string]struct {
		req  *http.Request
		want string
	}{
		"under a lease":           {leased, fence.Pad(lease.Token())},
		"no lease":                {plain, ""},
		"it has one already":      {chosen, "2304"},
		"it has no header at all": {bare, fence.Pad(lease.Token())},
	}
	for name, c := range cases {
		before := c.req.Header.Clone()
		resp, err := rt.RoundTrip(c.req)
		testkit.Must(t, err)
		resp.Body.Close()
		if strings.Join(got, ",") != c.want {
			t.Errorf("%s: sent %q, want %q", name, got, c.want)
		}
		if len(c.req.Header) != len(before) {
			t.Errorf("%s: the caller's request was changed: %v", name, c.req.Header)
		}
	}
}

func TestRoundTripperDoesNotSendAfterTheLease(t *testing.T) {
	lease := testkit.Lock(t, newLocks(t), "ledger")
	rt := &fence.RoundTripper{Base: transport(func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return nil, io.EOF
	})}
	content := &body{Reader: strings.NewReader("late")}
	req, err := http.NewRequestWithContext(lease.Context(), http.MethodPut, "http://localhost", content)
	testkit.Must(t, err)
	testkit.Must(t, lease.Unlock(t.Context()))
	for range 2 {
		resp, err := rt.RoundTrip(req)
		if resp != nil {
			resp.Body.Close()
		}
		if !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("got %v, want the lease's end", err)
		}
		if req.Body != nil && !content.closed {
			t.Error("the body was left open")
		}
		req.Body = nil
	}
}

// TestRoundTripperReadsRefusals has our problem, and answers that only look like it and must arrive as they are.
func TestRoundTripperReadsRefusals(t *testing.T) {
	const media = "application/problem+json"
	const ours = `{"type":"https://pkg.go.dev/github.com/holdfast-go/holdfast/fence#StaleError","status":409,` +
		`"token":"00000000000000001792","seen":"00000000000000002304"}`
	cases := map[string]struct {
		status      int
		media, body string
		stale       bool
	}{
		"ours":               {409, media, ours, true},
		"with a parameter":   {409, media + "; charset=utf-8", ours, true},
		"another status":     {400, media, ours, false},
		"another media type": {409, "application/json", ours, false},
		"no media type":      {409, "", ours, false},
		"another problem":    {409, media, strings.Replace(ours, "#StaleError", "#Other", 1), false},
		"tokens not padded":  {409, media, strings.ReplaceAll(ours, "0000000000000000", ""), false},
		"no tokens":          {409, media, strings.NewReplacer("token", "x", "seen", "y").Replace(ours), false},
		"no JSON":            {409, media, "conflict", false},
		"nothing":            {409, media, "", false},
		"very long":          {409, media, `{"detail":"` + strings.Repeat("x", 100_000) + `"}`, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			content := &body{Reader: strings.NewReader(c.body)}
			rt := &fence.RoundTripper{Base: transport(func(*http.Request) (*http.Response, error) {
				return &http.Response{
					StatusCode: c.status,
					Header:     http.Header{"Content-Type": {c.media}},
					Body:       content,
				}, nil
			})}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost", nil)
			testkit.Must(t, err)
			resp, err := rt.RoundTrip(req)
			if c.stale {
				wantStale(t, err, older, newer)
				if resp != nil {
					resp.Body.Close()
					t.Error("there is a response beside the error")
				}
			} else {
				testkit.Must(t, err)
				if got, err := io.ReadAll(resp.Body); string(got) != c.body || err != nil {
					t.Errorf("%d bytes of the body arrived, %v; want %d", len(got), err, len(c.body))
				}
				if content.closed {
					t.Error("the body was closed under the reader")
				}
				resp.Body.Close()
			}
			if !content.closed {
				t.Error("the body was left open")
			}
		})
	}
}

// TestRoundTripperPassesOnAReadThatFailed breaks the connection in the middle of a problem.
func TestRoundTripperPassesOnAReadThatFailed(t *testing.T) {
	broken := errors.New("connection reset")
	rt := &fence.RoundTripper{Base: transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusConflict, Header: http.Header{"Content-Type": {"application/problem+json"}},
			Body: io.NopCloser(io.MultiReader(strings.NewReader("{"), always{broken})),
		}, nil
	})}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost", nil)
	testkit.Must(t, err)
	resp, err := rt.RoundTrip(req)
	testkit.Must(t, err)
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); string(got) != "{" || !errors.Is(err, broken) {
		t.Errorf("got %q, %v", got, err)
	}
}

// always fails.
type always struct{ error }

func (a always) Read([]byte) (int, error) { return 0, a.error }
