package fence

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"

	"github.com/holdfast-go/holdfast"
)

// A RoundTripper is the http.RoundTripper of a client that works under a lease. It sends the token of the lease that a
// request's context is derived from (holdfast.TokenFrom) in [Header], unless the request has that header already. If
// the context has ended, the request is not sent, and the error is the cause. Requests outside of a lease are sent
// unchanged.
//
// If a fence at the service refuses the token, the error is the *StaleError that [Refuse] was called with, so that
// errors.Is(err, holdfast.ErrStale) holds across HTTP. The response to HEAD has no body: it stays a response with 409.
//
// Under several leases the token is that of the innermost one. Set the header yourself to send another.
type RoundTripper struct {
	Base http.RoundTripper // nil: http.DefaultTransport
}

// RoundTrip sends one request.
func (t *RoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if token, ok := holdfast.TokenFrom(ctx); ok {
		if ctx.Err() != nil {
			if req.Body != nil {
				req.Body.Close() //nolint:errcheck // the request is not sent, and that is the error
			}
			return nil, context.Cause(ctx)
		}
		if _, set := req.Header[Header]; !set {
			req = req.Clone(ctx) // the caller's request is not changed
			if req.Header == nil {
				req.Header = make(http.Header)
			}
			req.Header.Set(Header, Pad(token))
		}
	}
	resp, err := t.base().RoundTrip(req)
	if err != nil || !isProblem(resp) {
		return resp, err
	}
	return refusal(resp)
}

// maxProblem is more than any response of Refuse has.
const maxProblem = 16 << 10

// refusal turns a response of Refuse into the error that it was made of. Any other response is returned unchanged.
func refusal(resp *http.Response) (*http.Response, error) {
	begin, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err == nil {
		if stale, notOurs := staleFrom(begin); notOurs == nil {
			resp.Body.Close() //nolint:errcheck // the body has been read
			return nil, stale
		}
	}
	// After a failed read, reading on fails again: the caller sees the error there.
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), resp.Body), resp.Body}
	return resp, nil
}

// CloseIdleConnections closes the idle connections of Base. http.Client.CloseIdleConnections calls it.
func (t *RoundTripper) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// base returns Base, or http.DefaultTransport if that is nil.
func (t *RoundTripper) base() http.RoundTripper { return cmp.Or(t.Base, http.DefaultTransport) }
