package redlock_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/redlock"
)

// TestPasswordsAreNotRepeated: a server that does not know AUTH repeats what it was told, and not as it was.
func TestPasswordsAreNotRepeated(t *testing.T) {
	t.Parallel()
	f := newFreshFleet(t, 3, servers.Args("--rename-command", "HELLO", "XHELLO", "--rename-command", "AUTH", "XAUTH"))
	for _, password := range []string{"sesame", strings.Repeat("sesame", 40), "sesame%0Asesame"} {
		at := "redlock://:" + password + "@" + strings.Join(f.addresses(), ",")
		s, err := redlock.Open(t.Context(), at)
		if err == nil {
			s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "sesame") ||
			strings.Count(err.Error(), "unknown command 'AUTH'") != 3 {
			t.Errorf("Open: %v", err)
		}
		health, err := redlock.Status(t.Context(), at)
		if err != nil || health[0].Err == nil || strings.Contains(health[0].Err.Error(), "sesame") {
			t.Errorf("Status: %+v, %v", health[0], err)
		}
	}
}
