package fence

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/holdfast-go/holdfast"
)

// Header carries a fencing token from [RoundTripper] to [Middleware], as [Pad] writes it. Decimal without leading zeros
// is accepted as well.
const Header = "Fencing-Token"

// A Guard decides whether a token may pass. It calls handle, which runs the handler, or returns an error. [GateGuard]
// and [RowGuard] make guards.
type Guard func(r *http.Request, token holdfast.Token, handle func()) error

// GateGuard returns a guard for data in this process. It holds the gate that the function returns for a request while
// the handler runs ([Gate.Do]), so that the check and the handler's writes are one step. Requests with the same gate
// run one after the other, and a client that sends or reads slowly delays the others: bound how long a request can
// take, with the server's ReadTimeout and WriteTimeout. Work that continues after the handler has returned is not
// guarded.
func GateGuard(gate func(*http.Request) *Gate) Guard {
	return func(r *http.Request, token holdfast.Token, handle func()) error {
		return gate(r).Do(token, func() error { handle(); return nil })
	}
}

// RowGuard returns a guard for data in a SQL database. It raises the row that the function returns for a request before
// the handler runs ([Row.Enter]), so that the handler's reads come after that. It cannot make the handler's writes one
// step with the check, because they are in a transaction of their own: the handler writes with [Row.Do] and the token
// from [TokenOf], and calls [Refuse] if the write is refused.
func RowGuard(db *sql.DB, row func(*http.Request) Row) Guard {
	return func(r *http.Request, token holdfast.Token, handle func()) error {
		if err := row(r).Enter(r.Context(), db, token); err != nil {
			return err
		}
		handle()
		return nil
	}
}

// Middleware returns a handler that passes requests on to next if the guard accepts their token. It refuses the others
// with a problem (RFC 9457): 428 without a token, 400 if the header is not a token, 409 if the token is stale, and 503
// if the guard failed, which it logs to slog's default logger.
//
// All methods are guarded, including reads, because the first read of a new holder must raise the fence. Requests that
// need no token get a route without the middleware. With http.ServeMux, wrap the handler of a route rather than the
// mux: outside of the mux, PathValue is empty.
//
// Tokens are trusted. A client can send one that is too large and so lock out all others until SetFloor: authenticate
// first.
func Middleware(next http.Handler, guard Guard) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := TokenOf(r)
		if errors.Is(err, errNoToken) {
			plainProblem(http.StatusPreconditionRequired, "The header "+Header+" is required.").write(w)
			return
		}
		if err != nil {
			plainProblem(http.StatusBadRequest, "The header "+Header+" is not one decimal token.").write(w)
			return
		}
		handled := false
		err = guard(r, token, func() { handled = true; next.ServeHTTP(w, r) })
		if err == nil && !handled {
			err = errors.New("the guard neither accepted nor refused the request")
		}
		if err != nil && !errors.Is(err, holdfast.ErrStale) && r.Context().Err() == nil {
			slog.ErrorContext(r.Context(), "holdfast: guard failed", "method", r.Method, "err", err)
		}
		if !handled {
			Refuse(w, err)
		}
	})
}

var errNoToken = fmt.Errorf("holdfast: no %s header", Header)

// TokenOf returns the token in a request's header, or an error if there is none, more than one, or it is malformed.
func TokenOf(r *http.Request) (holdfast.Token, error) {
	switch values := r.Header.Values(Header); len(values) {
	case 0:
		return 0, errNoToken
	case 1:
		return holdfast.ParseToken(values[0])
	default:
		return 0, fmt.Errorf("holdfast: %d %s headers", len(values), Header)
	}
}
