package httplock_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapters/httplock"
	"github.com/holdfast-go/holdfast/memstore"
)

// Transfers from one account are handled one after the other, whichever machine they reach.
func ExampleMiddleware() {
	locks := holdfast.New(memstore.New()) // or holdfast.Open with the URL of the store that all machines use
	defer locks.Close()

	transfer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := holdfast.TokenFrom(r.Context()) // for the writes
		fmt.Println("from account", r.PathValue("account"), "with a token:", ok && token > 0)
		w.WriteHeader(http.StatusNoContent)
	})
	byAccount := func(r *http.Request) string { return "account:" + r.PathValue("account") }

	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{account}/transfer", httplock.Middleware(transfer, locks, byAccount))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/accounts/7/transfer", nil))
	fmt.Println(w.Code)
	// Output:
	// from account 7 with a token: true
	// 204
}
