package sqlite

import (
	"testing"
	"time"
)

// TestBootOffset: a container may have a time of its own, and must write the machine's.
func TestBootOffset(t *testing.T) {
	for offsets, want := range map[string]time.Duration{
		"": 0,
		"monotonic           0         0\nboottime            0         0\n": 0,
		"monotonic           7         0\nboottime         3600       500\n": time.Hour + 500,
		"boottime           -2 500000000\n":                                  -1500 * time.Millisecond,
		"something else\n":                                                   0,
	} {
		if got := bootOffset(offsets); got != want {
			t.Errorf("%q: %v, want %v", offsets, got, want)
		}
	}
}
