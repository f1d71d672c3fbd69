package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/report"
)

// write writes a run as a report of this store, and returns its path.
func write(t *testing.T, store string, run *report.Run) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), store+".json")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := run.WriteJSON(file); err != nil {
		t.Fatal(err)
	}
	return path
}

func at(name string, second history.Instant) report.Fault {
	begin := 1000 + second*history.Instant(time.Second)
	return report.Fault{Name: name, Interval: history.Interval{Begin: begin, End: begin + 1}}
}

func newRun(faults ...report.Fault) *report.Run {
	return &report.Run{
		Command: "holdfast verify --seed 1", Started: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		Interval: history.Interval{
			Begin: 1000,
			End:   1000 + 180*history.Instant(time.Second),
		}, Operations: 4711, Faults: faults,
		Checks:  []report.Check{{Name: "exclusion", Judged: 5}},
		Figures: []report.Figure{{Name: "updates lost without a fence", Value: 3}},
	}
}

// Runs are merged into the page between its markers: stores down, faults across, and violations where they belong.
func TestMerge(t *testing.T) {
	held := newRun(at("pause", 1), at("server-kill", 2), at("pause-writer", 3))
	broken := newRun(at("pause", 1), at("earthquake", 5))
	broken.Checks[0].Findings = []report.Finding{{Interval: at("", 6).Interval}, {Interval: at("", 0).Interval}}
	broken.Checks = append(broken.Checks,
		report.Check{Calibration: true, Judged: 1, Findings: []report.Finding{{Interval: at("", 2).Interval}}})
	page := filepath.Join(t.TempDir(), "page.md")
	before := "before\n" + beginMarker + "of last week\n" + endMarker + "after\n"
	if err := os.WriteFile(page, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what was written is replaced
		if err := merge(page, []string{write(t, "redis", held), write(t, "etcd", broken)}); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n" + beginMarker, endMarker + "after\n",
		"| store | time | operations | violations | paused | server killed | earthquake " +
			"| updates lost without a fence / behind it |\n",
		"| etcd | 3m0s | 4711 | **2** | 1 / 0 | – | 1 / **1** | 3 / 0 |\n" +
			"| redis | 3m0s | 4711 | 0 | 2 / 0 | 1 / 0 | – | 3 / 0 |\n",
		"- paused: `pause,pause-writer`\n- server killed: `server-kill`\n- earthquake: `earthquake`\n",
		"| redis | 2026-02-03 | pause,pause-writer,server-kill | `holdfast verify --seed 1` |\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "of last week") || strings.Count(string(text), "| store | time") != 1 {
		t.Errorf("what was there is still there:\n%s", text)
	}
}

func TestMergeRefuses(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("no markers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	report := write(t, "redis", newRun())
	for _, paths := range [][]string{{report}, {page}, {filepath.Join(t.TempDir(), "missing.json")}} {
		if err := merge(page, paths); err == nil {
			t.Errorf("%v was merged", paths)
		}
	}
	if text, err := os.ReadFile(page); err != nil || string(text) != "no markers\n" {
		t.Errorf("the page is %q, %v", text, err)
	}
}

// TestPage: the page of the project has the markers.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replace(string(text), "table"); err != nil {
		t.Error(err)
	}
}
