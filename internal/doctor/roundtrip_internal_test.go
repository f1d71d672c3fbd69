package doctor

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// TestRoundTrip measures a store that responds at once, slowly, too late to be measured, and no longer.
func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		delay       time.Duration
		silentAfter time.Duration // 0: never
		level       store.Level
		says        string
	}{
		{0, 0, store.OK, "p99 0s of 50 calls"},
		{slow / 2, 0, store.OK, "p99 125ms of 50 calls"},
		{slow + time.Millisecond, 0, store.Warn, "p99 251ms of 39 calls"},
		{callsWithin + time.Second, 0, store.Fail, "call 1 of 50 failed"},
		{slow / 2, 3*time.Second + slow/4, store.Fail, "call 26 of 50 failed"}, // silent once call 25 has its response
	} {
		t.Run(fmt.Sprint(c.delay, " ", c.silentAfter), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := memstore.New()
				defer s.Close()
				s.SetDelay(c.delay)
				if c.silentAfter > 0 {
					time.AfterFunc(c.silentAfter, func() { s.SetDelay(time.Hour) })
				}
				f := roundTrip(t.Context(), s)
				if f.Level != c.level || !strings.Contains(f.Found, c.says) {
					t.Errorf("%v: %s, want %v: %s", f.Level, f.Found, c.level, c.says)
				}
			})
		})
	}
}
