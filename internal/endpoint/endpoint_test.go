package endpoint_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/endpoint"
)

// A host gets the port if it has none, however it is written.
func TestWithPort(t *testing.T) {
	for host, want := range map[string]string{
		"h": "h:1", "h:2": "h:2", "10.0.0.1": "10.0.0.1:1", "[::1]": "[::1]:1", "[::1]:2": "[::1]:2", "::1": "[::1]:1",
	} {
		if got := endpoint.WithPort(host, "1"); got != want {
			t.Errorf("%s becomes %s, want %s", host, got, want)
		}
	}
}
