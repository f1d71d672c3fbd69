package mysql_test

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/store"
)

// TestMarkSetByHand: an operator sets the marks beyond the year 2100. Nothing new is granted, what is held is renewed,
// and what docs/operations.md says mends it.
func TestMarkSetByHand(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.open(t)
	held := testkit.Held(t, s, testkit.Claim("held", time.Minute))
	h.exec(t, "UPDATE holdfast_slots SET mark = 5000000000000000")
	for _, name := range []string{"held", "free"} {
		_, err := s.Join(t.Context(), testkit.Claim(name, time.Minute))
		if !errors.Is(err, store.ErrFloor) || !strings.Contains(err.Error(), "by hand") {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.Keep(t, s, held, store.Held)

	text, err := os.ReadFile("../../docs/operations.md")
	testkit.Must(t, err)
	h.exec(t, string(regexp.MustCompile("UPDATE holdfast_slots [^`]*").Find(text)))
	testkit.Leave(t, s, held)
	if next := testkit.Held(t, s, testkit.Claim("held", time.Minute)); next.Ticket <= held.Ticket {
		t.Errorf("ticket %d was given out after %d", next.Ticket, held.Ticket)
	}
	testkit.Held(t, s, testkit.Claim("free", time.Minute))
}
