package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/sqlstore/postgres"
)

// TestURLsAreRefused: a URL that cannot be meant is refused before anything is connected to, and nothing of it is
// shown.
func TestURLsAreRefused(t *testing.T) {
	for url, says := range map[string]string{
		"postgres:hush":                                  "postgres://user:password@host",
		"postgres:/hush/app":                             "one database",
		"postgres://127.0.0.1:1/app/hush":                "one database",
		"postgres://127.0.0.1:1/hush%00":                 "NUL",
		"postgres://hush%00@127.0.0.1:1":                 "NUL",
		"postgres://app:hush%00@127.0.0.1:1":             "NUL",
		"postgres://127.0.0.1:1?sslmode=hush":            "sslmode",
		"postgres://127.0.0.1:1?hush=1":                  "unknown parameter",
		"postgres://127.0.0.1:1?user=hush":               "unknown parameter",
		"postgres://127.0.0.1:1?listen=hush":             "listen",
		"postgres://127.0.0.1:1?listen=postgres:/hush/x": "listen",
	} {
		_, err := postgres.Open(t.Context(), url)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestURLIsRead: what a URL says reaches the server as it was meant, spaces and plus signs too.
func TestURLIsRead(t *testing.T) {
	const application = "stock + sales"
	server := servers.Postgres(t)
	s := testkit.Open(t, server.URL("postgres", "", "postgres")+"&application_name=stock+%2B+sales")
	testkit.Held(t, s, testkit.Claim("x", time.Minute))
	var connections int
	testkit.Must(t, server.DB(t).QueryRowContext(t.Context(),
		"SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", application).Scan(&connections))
	if connections == 0 {
		t.Errorf("no connection of %q", application)
	}
}
