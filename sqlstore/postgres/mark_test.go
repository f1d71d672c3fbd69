package postgres_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// TestMarkSetByHand: an operator sets the marks beyond the year 2100. Nothing new is granted, what is held is renewed,
// and what docs/operations.md says mends it.
func TestMarkSetByHand(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t)
	db := server.DB(t)
	s := testkit.Open(t, server.URL("postgres", "", "postgres"))
	held := testkit.Held(t, s, testkit.Claim("held", time.Minute))
	_, err := db.ExecContext(t.Context(), "UPDATE holdfast.slots SET mark = 5000000000000000")
	testkit.Must(t, err)
	for _, name := range []string{"held", "free"} {
		_, err := s.Join(t.Context(), testkit.Claim(name, time.Minute))
		if !errors.Is(err, store.ErrFloor) || !strings.Contains(err.Error(), "by hand") {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.Keep(t, s, held, store.Held)

	text, err := os.ReadFile("../../docs/operations.md")
	testkit.Must(t, err)
	mend := regexp.MustCompile(`UPDATE holdfast\.slots [^;]*`).Find(text)
	_, err = db.ExecContext(t.Context(), string(mend))
	testkit.Must(t, err)
	testkit.Leave(t, s, held)
	if next := testkit.Held(t, s, testkit.Claim("held", time.Minute)); next.Ticket <= held.Ticket {
		t.Errorf("ticket %d was given out after %d", next.Ticket, held.Ticket)
	}
	testkit.Held(t, s, testkit.Claim("free", time.Minute))
}
