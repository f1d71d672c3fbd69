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

// writeReport writes a run as a report of this store, and returns its path.
func writeReport(t *testing.T, store string, run *report.Run) string {
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
		if err := merge(page, []string{writeReport(t, "redis", held), writeReport(t, "etcd", broken)}); err != nil {
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
	report := writeReport(t, "redis", newRun())
	for _, paths := range [][]string{{report}, {page}, {filepath.Join(t.TempDir(), "missing.json")}} {
		if err := merge(page, paths); err == nil {
			t.Errorf("%v was merged", paths)
		}
	}
	if text, err := os.ReadFile(page); err != nil || string(text) != "no markers\n" {
		t.Errorf("the page is %q, %v", text, err)
	}
}

// TestPages: the page of the project and its translation have the markers, and the words of the table between them.
func TestPages(t *testing.T) {
	for path, words := range map[string]language{
		"../../docs/guarantees.md": english, "../../docs/guarantees.zh-CN.md": chinese,
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := replace(string(text), "table"); err != nil {
			t.Error(err)
		}
		for _, c := range columns {
			if !strings.Contains(string(text), "\n- "+words.title(c)+words.colon+"`") {
				t.Errorf("%s does not name the column %q", path, words.title(c))
			}
		}
		if !strings.Contains(string(text), words.commands) || !strings.Contains(string(text), "| "+words.lost+" |") {
			t.Errorf("%s has other heads", path)
		}
	}
}

// TestMergeTranslation: the table is written into the translation too, and a new fault has its name there.
func TestMergeTranslation(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	translation := strings.TrimSuffix(page, ".md") + ".zh-CN.md"
	for _, path := range []string{page, translation} {
		if err := os.WriteFile(path, []byte(beginMarker+endMarker), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	report := writeReport(t, "redis", newRun(at("pause", 1), at("earthquake", 2)))
	if err := merge(page, []string{report}); err != nil {
		t.Fatal(err)
	}
	for path, wants := range map[string][]string{
		page: {"| store | time |", "| paused | earthquake |", "- paused: `pause`\n"},
		translation: {
			"| 存储 | 时长 | 操作数 | 违例 | 暂停 | earthquake | 无栅栏 / 有栅栏时丢失的更新 |\n",
			"| redis | 3m0s | 4711 | 0 | 1 / 0 | 1 / 0 | 3 / 0 |\n",
			"- 暂停：`pause`\n- earthquake：`earthquake`\n",
			"| 存储 | 运行日期 | 故障 | 命令 |\n",
		},
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
	}
	if err := os.WriteFile(translation, []byte("no markers\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := merge(page, []string{report}); err == nil {
		t.Error("a translation without markers was taken")
	}
}
