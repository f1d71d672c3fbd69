package consulstore_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// snapshot saves what a server knows, or restores it if that is given.
func snapshot(t testing.TB, server *servers.ConsulServer, method string, saved []byte) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+server.Addr()+"/v1/snapshot",
		bytes.NewReader(saved))
	testkit.Must(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	testkit.Must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	testkit.Must(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s of a snapshot: %s", method, text)
	}
	return text
}

// Consul is restored from a snapshot that is older than the session's epoch. The client gives the session up, and works
// on with another.
func TestRestored(t *testing.T) {
	t.Parallel()
	server := servers.Consul(t)
	f, s := newFerry(t, server.Addr(), 10*sessionTTL)
	saved := snapshot(t, server, http.MethodGet, nil)
	f.decide(unanswered)
	lost := claimOf("lost")
	if _, err := s.Join(t.Context(), lost); err == nil {
		t.Fatal("the Join was answered")
	}
	testkit.Must(t, s.Leave(t.Context(), lost)) // begins another epoch
	snapshot(t, server, http.MethodPut, saved)
	testkit.Must(t, server.AwaitHealthy())
	testkit.CheckWorks(t, s)
}
