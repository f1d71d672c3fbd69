// Package httplock serialises HTTP requests by a key: of all requests with the same key, on all machines that use the
// same store, one is handled at a time, in order of arrival.
//
//	byAccount := func(r *http.Request) string { return "account:" + r.PathValue("account") }
//	mux.Handle("POST /accounts/{account}/transfer", httplock.Middleware(transfer, locks, byAccount))
//
// It needs only the standard library, whose http.Handler the routers in use accept.
package httplock

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
)

// DefaultWait is how long a request waits for its lock, unless the option holdfast.WithWait sets another time.
const DefaultWait = 5 * time.Second

// retryAfter is the value of the header Retry-After, in seconds. How long the lock will be held is not known.
const retryAfter = "1"

// Middleware returns a handler that passes each request on to next while it holds the mutex that key returns for the
// request. A request whose key is empty is passed on without a lock. The options are those of the mutexes.
//
// The context of the request that next receives ends when the lease is lost, in addition to what ends it otherwise; its
// cause is then a holdfast.ErrLost. holdfast.TokenFrom finds the fencing token in it. The handler should stop then, and
// pass the token along with its writes, since another request may be handled already. The lock is released when next
// has returned or panicked. A lease that was lost is logged to slog's default logger.
//
// A request that cannot be handled is refused with a problem (RFC 9457), and next is not called:
//
//   - 423 Locked, with Retry-After: the lock was held by others for the whole wait. It is not a 5xx, for which a load
//     balancer would take the machine out of service because one key is in demand, nor the 409 of a write that
//     fence.Middleware refuses.
//   - 503 Service Unavailable, with Retry-After: the store failed, which is logged, or the client or the server ended
//     the request.
//   - 400 Bad Request: the key cannot be the name of a lock, because it is too long, not UTF-8, or has a NUL byte.
//   - 500 Internal Server Error: an option is wrong, or the store does not support it. It is logged.
//
// A request waits in memory with its connection. So bound the wait, and use a key that few requests share at a time.
// Names should not come from a client alone: authenticate first, and put a prefix before the key, so that a client
// cannot choose the name of another lock. With http.ServeMux, wrap the handler of a route rather than the mux: outside
// of the mux, PathValue is empty.
func Middleware(
	next http.Handler, locks *holdfast.Client, key func(*http.Request) string, options ...holdfast.Option,
) http.Handler {
	options = append([]holdfast.Option{holdfast.WithWait(DefaultWait)}, options...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := key(r)
		if name == "" {
			next.ServeHTTP(w, r)
			return
		}
		handled := false
		err := locks.Mutex(name, options...).Do(r.Context(), func(ctx context.Context) error {
			handled = true
			next.ServeHTTP(w, r.WithContext(ctx))
			return nil
		})
		switch {
		case !handled:
			refuse(w, r, name, err)
		case err != nil:
			slog.ErrorContext(r.Context(), "holdfast: lock lost while a request was handled", "method", r.Method,
				"name", name, "err", err)
		}
	})
}

// refuse responds to a request whose lock was not acquired.
func refuse(w http.ResponseWriter, r *http.Request, name string, err error) {
	_, fault := errors.AsType[*holdfast.Fault](err)
	switch {
	case errors.Is(err, holdfast.ErrBadName):
		problem(w, http.StatusBadRequest, "The request names a resource that cannot be locked.")
	case r.Context().Err() != nil:
		w.Header().Set("Retry-After", retryAfter)
		problem(w, http.StatusServiceUnavailable, "The request ended before the resource was free.")
	case !fault && (errors.Is(err, holdfast.ErrLocked) || errors.Is(err, holdfast.ErrDeadlock)):
		w.Header().Set("Retry-After", retryAfter)
		problem(w, http.StatusLocked, "Another request is using the resource.")
	case fault || errors.Is(err, holdfast.ErrClosed) || errors.Is(err, context.DeadlineExceeded):
		slog.ErrorContext(r.Context(), "holdfast: request not handled", "method", r.Method, "name", name, "err", err)
		w.Header().Set("Retry-After", retryAfter)
		problem(w, http.StatusServiceUnavailable, "The resource could not be locked.")
	default:
		slog.ErrorContext(r.Context(), "holdfast: request not handled", "method", r.Method, "name", name, "err", err)
		problem(w, http.StatusInternalServerError, "The resource could not be locked.")
	}
}

// problem writes a response as in RFC 9457.
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(struct { //nolint:errcheck // the client is gone
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
}
