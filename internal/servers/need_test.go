package servers

import (
	"strings"
	"testing"
)

func TestNeed(t *testing.T) {
	for _, test := range []struct {
		name, ci, require string
		fails             bool
	}{
		{"a developer's machine", "", "", false},
		{"another meaning of CI", "false", "", false},
		{"continuous integration", "true", "", true},
		{"make test", "", "1", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("PATH", t.TempDir())
			t.Setenv("CI", test.ci)
			t.Setenv("HOLDFAST_REQUIRE_SERVERS", test.require)
			f := asTest(t, func(t testing.TB) {
				Need(t, "redis-server")
				t.Errorf("it went on")
			})
			if f.failed != test.fails || f.skipped == test.fails {
				t.Errorf("failed: %t, skipped: %t", f.failed, f.skipped)
			}
			for _, word := range []string{"redis-server is missing", "apt-get install redis-server"} {
				if !strings.Contains(f.said, word) {
					t.Errorf("it does not say %q: %s", word, f.said)
				}
			}
		})
	}
}
