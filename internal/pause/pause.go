// Package pause waits for a time, or until a context ends.
package pause

import (
	"context"
	"time"
)

// For waits for d, and reports whether that has passed. It returns early, and reports false, if ctx ends before.
func For(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
