package consulstore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// An exchange is a request, and what came of it. It is sent as long as prepare says so, and finished each time: once,
// and a second time if Consul does not know the token, or that lacks a permission, and it has been replaced.
type exchange struct {
	agent        *agent
	method, path string
	query        url.Values
	body, result any

	token    *string // nil: nothing was sent
	repeated bool
	request  *http.Request // to be sent
	index    uint64        // of the response
	err      error
}

// prepare makes the request that is to be sent. It reports false if there is none.
func (x *exchange) prepare(ctx context.Context) bool {
	before := x.token
	if x.repeated || before != nil && !x.agent.forgetToken(before, x.err) {
		return false
	}
	x.repeated = before != nil
	token, err := x.agent.readToken(ctx)
	switch {
	case before != nil && (err != nil || *token == *before):
		return false
	case err != nil:
		x.err = err
		return false
	}
	x.token = token
	x.request, x.err = x.newRequest(ctx)
	return x.err == nil
}

// newRequest returns the HTTP request of the exchange.
func (x *exchange) newRequest(ctx context.Context) (*http.Request, error) {
	var content io.Reader
	if x.body != nil {
		text, err := json.Marshal(x.body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, x.method, x.agent.address(x.path, x.query), content)
	if err == nil && *x.token != "" {
		request.Header.Set("X-Consul-Token", *x.token)
	}
	return request, err
}

// What is read at most of a response that has a result, and of one that is a refusal.
const (
	maxResponse = 64 << 20
	maxRefusal  = 4 << 10
)

// finish reads what came of the request.
func (x *exchange) finish(got *http.Response, err error) {
	x.index, x.err = 0, err
	if err != nil {
		return
	}
	defer got.Body.Close()                                                   //nolint:errcheck // it was read
	x.index, _ = strconv.ParseUint(got.Header.Get("X-Consul-Index"), 10, 64) // otherwise it is 0: unknown
	refused, limit := got.StatusCode != http.StatusOK && got.StatusCode != http.StatusConflict, int64(maxResponse)
	if refused {
		limit = maxRefusal
	}
	text, err := io.ReadAll(io.LimitReader(got.Body, limit))
	switch {
	case err != nil:
		x.err = err
	case refused:
		x.err = &refusal{got.StatusCode, oneLine(string(text))}
	default:
		if err := json.Unmarshal(text, x.result); err != nil {
			x.err = fmt.Errorf("the response is not one of Consul's: %w", err)
		} else if t, ok := x.result.(*txnResult); ok {
			x.err = t.failure() // if it was rolled back
		}
	}
}

// longestText is how many bytes of Consul's words stand in an error.
const longestText = 400

// oneLine writes what Consul says for an error: without what is not printable, and not too much of it.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), longestText)], ""))
	return strings.TrimSpace(text)
}
