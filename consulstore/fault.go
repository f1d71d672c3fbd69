package consulstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/sessionqueue"
)

// A finalError is one that comes again however often the call is repeated.
type finalError struct{ error }

func (f finalError) Unwrap() error { return f.error }

// final marks an error as one that a retry does not fix.
func final(err error) error { return finalError{err} }

var errHandshake = errors.New("no TLS connection")

// noRead is the error of a token that may write a key and does not see it.
func (c *consul) noRead(key string) error {
	return final(fmt.Errorf("%s: the token lacks permission 'key:read' on %s", permissionDenied, store.Quote(key)))
}

// isFinal reports whether a retry of what has failed so is of no use.
func isFinal(err error) bool {
	_, final := explain(err)
	return final
}

// explain turns an error into a sentence, and reports whether a retry is of no use.
func explain(err error) (why error, isFinal bool) {
	if f, ok := errors.AsType[finalError](err); ok {
		return f.error, true
	}
	if errors.Is(err, sessionqueue.ErrUnreadable) {
		return err, true
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		return explainRefusal(refused)
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return untrusted, true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errors.New("the agent does not speak TLS at this port"), true
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errors.New("no response"), false
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		if e.Op == "remote error" { // crypto/tls has no type for it
			return fmt.Errorf("the agent refuses the TLS connection: %w", e.Err), true
		}
		return fmt.Errorf("it cannot be reached: %w", withoutURL(err)), false
	}
	return withoutURL(err), false
}

// withoutURL leaves out what net/http adds: the URL of a request has nothing for users.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// explainRefusal explains a response that is not a result.
func explainRefusal(r *refusal) (why error, isFinal bool) {
	switch {
	case r.code == http.StatusForbidden && strings.Contains(r.text, "ACL not found"):
		return errors.New("it does not know the token"), true
	case strings.Contains(r.text, "Invalid Session TTL"):
		return fmt.Errorf("it does not take this ttl: it takes 10s or more, unless its session_ttl_min says "+
			"otherwise (%s)", r.text), true
	case strings.Contains(r.text, "Client sent an HTTP request to an HTTPS server"):
		return errors.New("the agent speaks TLS at this port: write consuls:// in place of consul://"), true
	case r.code == http.StatusTooManyRequests && strings.Contains(r.text, "concurrent connections"):
		return fmt.Errorf("it takes no more connections from this address (http_max_conns_per_client): %w", r), false
	case r.code == http.StatusTooManyRequests || r.code >= http.StatusInternalServerError:
		return r, false
	}
	return fmt.Errorf("it refuses the request: %w", r), true
}
