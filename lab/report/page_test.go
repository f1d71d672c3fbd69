package report

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/history"
)

// between returns what stands between two texts, each of which is there once.
func between(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, begin)
	found, _, closed := strings.Cut(rest, end)
	if !ok || !closed || strings.Contains(rest, begin) {
		t.Fatalf("not one %q … %q", begin, end)
	}
	return found
}

func TestPage(t *testing.T) {
	text := written(t, brokenRun().WriteHTML)
	for _, want := range []string{
		`<title>A fabricated run: broken</title>`, `<p class="verdict broken">broken</p>`,
		`<tr id="violation-1">`, `href="#violation-1"`, `process 0/a with token 2560, from 100ms to 500ms`,
		`process 1/b with token 2816, from 400ms to 700ms`, `redis://user:***@127.0.0.1:6379`, `2.5 per second`,
		`it answered nothing`, `Timeline of 2 workers over 1s with 1 fault and 1 violation.`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the page of a broken lock", want)
		}
	}
	if strings.Contains(text, "no-violations") {
		t.Error("the page of a broken lock has no violations")
	}
	text = written(t, cleanRun().WriteHTML)
	if strings.Contains(text, "violation-1") || !strings.Contains(text, "No violation was found.") {
		t.Error("the page of a lock that holds has violations")
	}
}

// TestPageOfCalibration checks that what was found for calibration is in a table of its own, and not in the timeline.
func TestPageOfCalibration(t *testing.T) {
	r := brokenRun()
	r.Checks[0].Calibration = true
	text := written(t, r.WriteHTML)
	if !strings.Contains(text, "No violation was found.") || !strings.Contains(text, `<h2 id="calibration-title">`) ||
		!strings.Contains(text, "with token 2816, from 400ms") || strings.Contains(text, "violation-1") {
		t.Error("calibration is not told from violations")
	}
	if found := r.timeline().Findings; len(found) != 0 {
		t.Errorf("in the timeline: %+v", found)
	}
}

// TestPageNeedsNothing checks that the page has all that it needs, and that its policy allows that and nothing else.
func TestPageNeedsNothing(t *testing.T) {
	text := written(t, brokenRun().WriteHTML)
	policy := html.UnescapeString(between(t, text, `http-equiv="Content-Security-Policy" content="`, `"`))
	for _, part := range []struct{ directive, content string }{
		{"script-src", between(t, text, "<script>", "</script>")},
		{"style-src", between(t, text, "<style>", "</style>")},
	} {
		if want := part.directive + " '" + digest(part.content) + "'"; !strings.Contains(policy, want) {
			t.Errorf("the policy has no %q: %s", want, policy)
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy allows too much: %s", policy)
	}
	loads := regexp.MustCompile(
		`(?i)https?:|//[a-z]|src=|url\(|@import|\bimport\b|fetch\(|XMLHttp|href="[^#"]+"|style="`,
	)
	text = strings.Replace(text, `href="data:,"`, "", 1)
	text = strings.Replace(text, "redis://user:***@127.0.0.1:6379", "", 1)
	if found := loads.FindAllString(text, -1); found != nil {
		t.Errorf("the page may load something: %q", found)
	}
}

// TestPageEscapes checks that names from outside are text in the page, whatever they contain.
func TestPageEscapes(t *testing.T) {
	text := written(t, oddRun().WriteHTML)
	if n := strings.Count(text, "<script"); n != 2 {
		t.Errorf("%d scripts, want the data and the script", n)
	}
	for _, bad := range []string{"owned'</script>", "<!--", "\x1b", "\u202e", "\U000e0041", "&amp;amp;amp;"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	if !strings.Contains(text, `&lt;script&gt;document.title=&#39;owned&#39;&lt;/script&gt;`) {
		t.Error("the name is not in the page as text")
	}
	var got timeline
	data := between(t, text, `<script type="application/json" id="data">`, "</script>")
	if err := json.Unmarshal([]byte(data), &got); err != nil {
		t.Fatal(err)
	}
	if name := got.Faults[0].Name; !strings.Contains(name, "</script><script>document.title='owned'") {
		t.Errorf("a name in the data: %q", name)
	}
}

// TestTimeline checks that times count from the beginning of the run, and where findings are.
func TestTimeline(t *testing.T) {
	r := brokenRun()
	r.Faults = append(r.Faults, Fault{Name: "earlier", Interval: ms(10, 20)})
	got := r.timeline()
	if got.End != 1e9 || got.Rows[0].Marks[0].Begin != 100e6 ||
		got.Faults[0].Name != "earlier" || got.Faults[1].End != 450e6 {
		t.Errorf("%+v", got)
	}
	r.Workers[0].Spans = append(r.Workers[0].Spans, Span{State: Wrote, Interval: ms(120, 120), Resource: "register"})
	if names := r.timeline().resources(); len(names) != 1 || names[0] != "stock" {
		t.Errorf("%q can be chosen", names)
	}
	f := got.Findings[0]
	if f.Begin != 400e6 || f.End != 500e6 || len(f.Rows) != 2 || f.Rows[0] != 0 || f.Rows[1] != 1 {
		t.Errorf("%+v", f)
	}
}

// TestLanes checks that spans of one worker do not cover each other, unless there are very many.
func TestLanes(t *testing.T) {
	span := func(s State, begin, end int) Span { return Span{State: s, Interval: ms(begin, end)} }
	for _, test := range []struct {
		name  string
		spans []Span
		want  []int // in order of their beginning
		lanes int
	}{
		{"nothing", nil, nil, 1},
		{"one after the other", []Span{span(Holding, 2, 4), span(Waiting, 0, 2), span(Lost, 4, 5)}, []int{0, 0, 0}, 1},
		{"two at once", []Span{span(Holding, 0, 4), span(Waiting, 1, 2), span(Holding, 2, 3)}, []int{0, 1, 1}, 2},
		{"before the run", []Span{span(Holding, -9, -4), span(Holding, -4, 3), span(Waiting, 3, 5)}, []int{0, 0, 0}, 1},
		{"a wait that is written down late", []Span{span(Waiting, 0, 4), span(Holding, 2, 3), span(Lost, 3, 7)},
			[]int{0, 0, 0}, 1},
		{"the whole worker", []Span{span(Holding, 0, 4), span(Paused, 1, 2), span(Refused, 3, 3)}, []int{0, -1, -1}, 1},
		{"very many", []Span{
			span(Holding, 0, 9), span(Holding, 1, 9), span(Holding, 2, 9), span(Holding, 3, 9), span(Holding, 4, 9),
		}, []int{0, 1, 2, 3, 3}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := (&Run{Interval: ms(0, 9)}).row(&Worker{history.Who{}, test.spans})
			var got []int
			for _, m := range r.Marks {
				got = append(got, m.Lane)
			}
			if len(got) != len(test.want) || r.Lanes != test.lanes {
				t.Fatalf("%v in %d lanes", got, r.Lanes)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("%v, want %v", got, test.want)
				}
			}
		})
	}
}

func TestCommonPrefix(t *testing.T) {
	for want, names := range map[string][]string{
		"":          {"alpha", "beta"},
		"verify/":   {"verify/a", "verify/b"},
		"verify/x/": {"verify/x/mutex 1", "verify/x/mutex 2", "verify/x/pool"},
	} {
		if got := commonPrefix(names); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, names := range [][]string{nil, {"verify/a"}, {"mutex 1", "mutex 2"}} {
		if got := commonPrefix(names); got != "" {
			t.Errorf("%q have %q in common", names, got)
		}
	}
}
