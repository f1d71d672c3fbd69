package consulstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	response response
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

// What is read at most of a response, and of a refusal or of what follows a result.
const (
	maxResponse = 64 << 20
	maxRefusal  = 4 << 10
)

// finish reads what came of the request.
func (x *exchange) finish(got *http.Response, err error) {
	x.response, x.err = response{}, err
	if err != nil {
		return
	}
	defer got.Body.Close() //nolint:errcheck // it was read
	x.response.code = got.StatusCode
	x.response.index, _ = strconv.ParseUint(got.Header.Get("X-Consul-Index"), 10, 64) // otherwise it is 0: unknown
	if got.StatusCode == http.StatusOK || got.StatusCode == http.StatusConflict {
		x.err = decode(io.LimitReader(got.Body, maxResponse), x.result)
	} else {
		x.err = readRefusal(got)
	}
	if x.err == nil {
		_, x.err = io.Copy(io.Discard, io.LimitReader(got.Body, maxRefusal)) // so that the connection can be used again
	}
	if t, ok := x.result.(*txnResult); ok && x.err == nil {
		x.err = t.failure()
	}
}

// readRefusal returns what a response says that is not a result.
func readRefusal(got *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(got.Body, maxRefusal))
	if err != nil {
		return err
	}
	return &refusal{got.StatusCode, oneLine(string(text))}
}

// decode reads a response in JSON.
func decode(body io.Reader, result any) error {
	err := json.NewDecoder(body).Decode(result)
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	if syntax || kind || errors.Is(err, io.EOF) {
		return fmt.Errorf("the response is not one of Consul's: %w", err)
	}
	return err
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
