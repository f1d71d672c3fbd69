package pause_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/pause"
)

// A context ends before a pause is over, after it, or not at all. The pause ends with what comes first, and reports
// whether that was the time.
func TestFor(t *testing.T) {
	t.Parallel()
	const pauses = time.Minute
	for _, test := range []struct {
		name   string
		ends   time.Duration // 0: the context does not end
		passed bool
		lasts  time.Duration
	}{
		{"the context does not end", 0, true, pauses},
		{"it ends later", 2 * pauses, true, pauses},
		{"it ends before", pauses / 2, false, pauses / 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.ends > 0 {
					defer time.AfterFunc(test.ends, cancel).Stop()
				}
				began := time.Now()
				passed := pause.For(ctx, pauses)
				if lasted := time.Since(began); passed != test.passed || lasted != test.lasts {
					t.Errorf("For returned %v after %v, want %v after %v", passed, lasted, test.passed, test.lasts)
				}
			})
		})
	}
}
