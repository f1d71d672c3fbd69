package fence

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/holdfast-go/holdfast"
)

// A RoundTripper is the http.RoundTripper of a client that works under a lease. It sends the token of the lease that
// a request's context comes from (holdfast.TokenFrom) in [Header], unless the request has that header already. If the
// context is over, the request is not sent, and the error is why. Requests from outside a lease are sent as they are.
//
// When a fence at the other end refuses the token, the error is the *StaleError that [Refuse] was given, so that
// errors.Is(err, holdfast.ErrStale) holds across HTTP. (The answer to HEAD has no body: it stays a response with 409.)
//
// Under several leases the token is the innermost one's. Set the header yourself if it should be another's.
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
			req = req.Clone(ctx) // the caller's stays as it is
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

// maxProblem is more than any problem of ours has.
const maxProblem = 16 << 10

// refusal turns a problem of ours into the error that it was. Any other answer is left as it came.
func refusal(resp *http.Response) (*http.Response, error) {
	begin, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err == nil {
		if stale, notOurs := staleFrom(begin); notOurs == nil {
			resp.Body.Close() //nolint:errcheck // all that matters has been read
			return nil, stale
		}
	}
	// After a failed read the rest fails again, and the caller sees it where it happened.
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), resp.Body), resp.Body}
	return resp, nil
}

// CloseIdleConnections is what http.Client.CloseIdleConnections calls.
func (t *RoundTripper) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *RoundTripper) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}
