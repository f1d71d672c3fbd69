package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// parts counts the elements of a picture by their class.
func parts(t *testing.T, picture string) map[string]int {
	t.Helper()
	n := map[string]int{}
	d := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok {
			if start.Name.Local == "script" {
				t.Error("a script in the picture")
			}
			for _, a := range start.Attr {
				if a.Name.Local == "class" {
					n[a.Value]++
				}
			}
		}
	}
}

func TestPicture(t *testing.T) {
	picture := written(t, brokenRun().WriteSVG)
	n := parts(t, picture)
	if n["violation"] != 2+1 || n["between"] != 1 || n["holding"] != 3+1 || n["on-holding"] != 3 ||
		n["paused"] != 1+1 ||
		n["fault"] != 1+1 || n["name"] != 2 || n["caption bad"] != 1 ||
		n["lost"] != 0 { // one of each is in the legend
		t.Errorf("%v in %s", n, picture)
	}
	for _, want := range []string{
		"at 400ms: two were held at once for 100ms, and they exclude each other", "pause, process 0", ">2816<", "dark",
	} {
		if !strings.Contains(picture, want) {
			t.Errorf("no %q in %s", want, picture)
		}
	}
	if written(t, brokenRun().WriteSVG) != picture {
		t.Error("another picture of the same run")
	}
	n = parts(t, written(t, cleanRun().WriteSVG))
	if n["violation"] != 0 || n["between"] != 0 || n["caption bad"] != 0 || n["holding"] != 3+1 {
		t.Errorf("of a lock that holds: %v", n)
	}
	parts(t, written(t, (&Run{}).WriteSVG))
	if picture := written(t, oddRun().WriteSVG); !strings.Contains(picture, "&lt;/script&gt;&lt;script&gt;") {
		t.Errorf("names are not text in %s", picture)
	}
}

// TestFindingWithoutHolds checks that a finding about no holds is in the rows of its workers, and in all rows if
// it has none.
func TestFindingWithoutHolds(t *testing.T) {
	r := cleanRun()
	waits := []history.Wait{{Who: worker("process 1", "b"), Resource: "stock", Interval: ms(0, 400), Granted: true}}
	r.AddCheck("bounded waiting", "Nobody waits for long.", 1, check.Waiting(waits, nil, 100*time.Millisecond))
	f := r.timeline().Findings
	if len(f) != 1 || f[0].Begin != 0 || f[0].End != 400e6 || f[0].Overlap || !slices.Equal(f[0].Rows, []int{1}) {
		t.Errorf("%+v", f)
	}
	if n := parts(t, written(t, r.WriteSVG)); n["around"] != 1 || n["violation"] != 1 { // one is in the legend
		t.Errorf("%v", n)
	}

	r.Checks = []Check{{Name: "nothing left behind", Judged: 1, Findings: []Finding{{Interval: r.Interval}}}}
	if n := parts(t, written(t, r.WriteSVG)); n["around"] != 0 || n["between"] != 1 {
		t.Errorf("%v", n)
	}
}

// TestPictureOfMany checks that a picture of many workers has those of the violations, and says what it leaves out.
func TestPictureOfMany(t *testing.T) {
	var holds []history.Hold
	for i := range 40 {
		holds = append(holds, exclusive(worker(fmt.Sprint("process ", i), ""), uint64(i+1), ms(i*20, i*20+10)))
	}
	holds[37].End = ms(0, 38*20+5).End
	picture := written(t, fabricated(holds...).WriteSVG)
	names := regexp.MustCompile(`class="name"[^>]*>([^<]*)<`).FindAllStringSubmatch(picture, -1)
	if len(names) != 12 || names[0][1] != "process 0" || names[10][1] != "process 37" || names[11][1] != "process 38" {
		t.Errorf("%v", names)
	}
	if !strings.Contains(picture, "not shown: 28 workers") {
		t.Error("it does not say what it leaves out")
	}
}

// TestPictureLeavesOutWhatHides checks that a picture does not grow with spans that are too short to be seen.
func TestPictureLeavesOutWhatHides(t *testing.T) {
	r := cleanRun()
	for i := range 10000 {
		at := origin + history.Instant(i)*100
		wait := Span{State: Waiting, Interval: history.Interval{Begin: at, End: at + 50}}
		r.Workers[0].Spans = append(r.Workers[0].Spans, wait)
	}
	if n := parts(t, written(t, r.WriteSVG))["waiting"]; n < 2 || n > 10 {
		t.Errorf("%d waits in the picture", n)
	}
}

func TestNiceStep(t *testing.T) {
	for end, want := range map[history.Instant]history.Instant{
		1: 1, 8: 1, 9: 2, 16: 2, 40: 5, 45: 10, 1e9: 2e8, 3e9: 5e8, 16e9: 2e9, 30e9: 5e9, 180e9: 5e10,
	} {
		if got := niceStep(end); got != want {
			t.Errorf("%d: %d, want %d", end, got, want)
		}
	}
}
