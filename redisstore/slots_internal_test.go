package redisstore

import "testing"

// The values are Redis' own, from CLUSTER KEYSLOT.
func TestSlots(t *testing.T) {
	for key, want := range map[string]int{
		"123456789":          0x31c3,
		"foo":                12182,
		"{foo}bar":           12182,
		"x{foo}bar}":         12182,
		"holdfast:{p|foo}:r": slotOf("p|foo"),
		"foo{}":              slotOf("foo{}"),
		"{":                  slotOf("{"),
	} {
		if got := slotOf(key); got != want {
			t.Errorf("%q is in slot %d, want %d", key, got, want)
		}
	}
	seen := map[string]bool{}
	for slot := range slotCount {
		tag := tagOf(slot)
		if slotOf("holdfast:{"+tag+"}:mark:p") != slot || len(tag) > 4 || seen[tag] {
			t.Fatalf("slot %d has the tag %q", slot, tag)
		}
		seen[tag] = true
	}
}
