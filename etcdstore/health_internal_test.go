package etcdstore

import "testing"

func TestTooOld(t *testing.T) {
	for version, want := range map[string]bool{
		"2.3.8": true, "3.0.0": true, "3.4.30": true, "3.5.0": true, "3.5.9": true, "3.5.12": true, "3.5.12-rc.1": true,
		"3.5.13": false, "3.5.21": false, "3.6.0": false, "3.6.0-alpha.0": false, "3.7.3": false, "3.10.1": false,
		"4.0.0": false, "10.1.2": false,
		// What cannot be read is not refused for it.
		"": false, "3": false, "3.5": false, "not provided": false, "3.x.1": false,
	} {
		if got := tooOld(version); got != want {
			t.Errorf("version %q is too old: %t, want %t", version, got, want)
		}
	}
}
