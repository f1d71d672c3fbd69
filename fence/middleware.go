package fence

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/holdfast-go/holdfast"
)

// Header carries a fencing token from [RoundTripper] to [Middleware], as [Pad] writes it. Decimal without leading
// zeros is read as well.
const Header = "Fencing-Token"

// A Guard is what stands before a handler: it decides whether the token may pass, and calls handle, which runs the
// handler, or returns an error and does not. [HoldGate] and [EnterRow] are guards.
type Guard func(r *http.Request, token holdfast.Token, handle func()) error

// HoldGate is a guard for data in this process. It holds the gate that the function gives for a request while the
// handler runs ([Gate.Do]), so that the check and what the handler writes are one step. Requests with the same gate
// run one after the other, so bound how long one can take: with the server's ReadTimeout and WriteTimeout, since a
// client that sends or reads slowly holds up the others. What the handler leaves running when it returns is not
// guarded.
func GateGuard(gate func(*http.Request) *Gate) Guard {
	return func(r *http.Request, token holdfast.Token, handle func()) error {
		return gate(r).Do(token, func() error { handle(); return nil })
	}
}

// EnterRow is a guard for data in a SQL database. It raises the row that the function gives for a request before the
// handler runs ([Row.Enter]), so that the handler's reads come after that. It cannot make the handler's writes one
// step with the check, because they are in a transaction of their own: the handler writes with [Row.Do] and the token
// from [TokenOf], and answers with [Refuse] when that is refused.
func RowGuard(db *sql.DB, row func(*http.Request) Row) Guard {
	return func(r *http.Request, token holdfast.Token, handle func()) error {
		if err := row(r).Enter(r.Context(), db, token); err != nil {
			return err
		}
		handle()
		return nil
	}
}

// Middleware lets only those requests through to next whose token the guard lets pass. It refuses the others with a
// problem (RFC 9457): 428 if there is no token, 400 if it is none, 409 if it is stale, and 503 if the guard failed,
// which it logs to slog's default.
//
// All methods are guarded, reads too, because the first read of a new holder must raise the fence. What needs no
// token is a route of its own, without the middleware. With http.ServeMux it goes around the handler of a route, not
// around the mux: before that, PathValue is empty.
//
// A token is believed. Whoever may send requests can send one that is too large and lock out all others, until
// SetFloor; so authenticate first.
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
			err = errors.New("the guard neither let the request pass nor refused it")
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

// TokenOf is the token that a request came with.
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
