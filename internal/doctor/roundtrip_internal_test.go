package doctor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// TestRoundTrip measures a store that responds at once, slowly, and too late to be measured.
func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		delay time.Duration
		level store.Level
		says  string
	}{
		{0, store.OK, "p99 0s of 50 calls"},
		{slow / 2, store.OK, "p99 125ms of 50 calls"},
		{slow + time.Millisecond, store.Warn, "p99 251ms of 39 calls"},
		{callsWithin + time.Second, store.Fail, "call 1 of 50 failed"},
	} {
		t.Run(c.delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				defer s.Close()
				s.SetDelay(c.delay)
				f := roundTrip(t.Context(), s)
				if f.Level != c.level || !strings.Contains(f.Found, c.says) {
					t.Errorf("%v: %s, want %v: %s", f.Level, f.Found, c.level, c.says)
				}
			})
		})
	}
}
