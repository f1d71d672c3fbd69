package contend

import (
	"maps"
	"testing"
)

// Errors that differ only in how long something takes are one kind, and others are not.
func TestKindsOfErrors(t *testing.T) {
	var texts map[string]int
	for _, text := range []string{
		"127.0.0.1:10001: no vote for another 9.345s", "127.0.0.1:10001: no vote for another 850ms", "127.0.0.1:10001: no vote for another 1m2s",
		"127.0.0.1:10002: no vote for another 850ms", "it is at 42",
	} {
		texts = count(texts, text)
	}
	want := map[string]int{"127.0.0.1:10001: no vote for another …": 3, "127.0.0.1:10002: no vote for another …": 1, "it is at 42": 1}
	if !maps.Equal(texts, want) {
		t.Errorf("%v, want %v", texts, want)
	}
}
