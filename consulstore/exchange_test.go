package consulstore_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/consulstore"
)

// What answers at the address sends the client elsewhere. The client does not go there, with its token least of all.
func TestRedirect(t *testing.T) {
	t.Parallel()
	var followed atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed.Add(1)
		}
		http.Redirect(w, r, "http://elsewhere.example/elsewhere", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	_, err := consulstore.Open(t.Context(), []string{address}, consulstore.WithToken("secret"))
	checkFault(t, err, true, "refuses the request")
	if n := followed.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}
