package broken_test

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/broken"
)

// TestTour: docs/why-locks-are-hard.md and its translation tell of each rung, under the number that it has, and show
// its picture.
func TestTour(t *testing.T) {
	for _, page := range []string{"../../docs/why-locks-are-hard.md", "../../docs/why-locks-are-hard.zh-CN.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		sections := strings.Split(string(text), "\n## ")
		for _, r := range broken.Rungs() {
			section := sections[r.Number] // the first is before all headings
			picture := "img/ladder-" + r.Name + ".svg"
			if !strings.Contains(section, "`"+r.Name+"`") || !strings.Contains(section, "("+picture+")") {
				t.Errorf("%s: %s, or its picture, is not told of under %.40q", page, r.Name, section)
			}
			if _, err := os.Stat("../../docs/" + picture); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestRungsAreToldWhole: each rung says all that there is to say of it, and has a name of its own.
func TestRungsAreToldWhole(t *testing.T) {
	names := map[string]bool{}
	number := 1
	for _, r := range broken.Rungs() {
		for what, text := range map[string]string{
			"what": r.What, "seen": r.Seen, "promise": r.Promise, "story": r.Story, "rule": string(r.Rule),
			"prevents": r.Prevents, "store": r.Store,
		} {
			if strings.TrimSpace(text) == "" {
				t.Errorf("%s does not tell its %s", r.Name, what)
			}
		}
		if names[r.Name] || r.Number < number || r.Number > number+1 || r.Budget == 0 {
			t.Errorf("%s has the name of another, comes out of order, or has no budget", r.Name)
		}
		names[r.Name], number = true, r.Number
	}
	if number != 14 {
		t.Errorf("the ladder has %d numbers, want 14", number)
	}
}
