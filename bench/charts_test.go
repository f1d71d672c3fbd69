package main

import (
	"encoding/xml"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded is the run whose charts are in docs.
const recorded = "results/redis.json"

// The charts in docs are those of the recorded run, and are shown there.
func TestChartsInDocs(t *testing.T) {
	run, err := readJSON(recorded)
	must(t, err)
	page, err := os.ReadFile("../docs/benchmarks.md")
	must(t, err)
	drawn := run.pictures()
	for name, svg := range drawn {
		checkSVG(t, name, svg)
		file, err := os.ReadFile("../docs/img/" + name)
		if err != nil || string(file) != svg {
			t.Errorf("docs/img/%s is old: make charts (%v)", name, err)
		}
		if !strings.Contains(string(page), "img/"+name) {
			t.Errorf("docs/benchmarks.md does not show img/%s", name)
		}
	}
	files, err := filepath.Glob("../docs/img/bench-*.svg")
	must(t, err)
	if len(files) != len(drawn) {
		t.Errorf("docs/img has %v, and %d charts are drawn", files, len(drawn))
	}
}

// A chart is well-formed and nothing in it leaves the picture, whatever was measured.
func TestChartsOfAnything(t *testing.T) {
	run := &jsonRun{
		Command: "go -C bench run . --contestants '" + strings.Repeat("a|<b>&", 50) + "' --store redis",
		Rounds:  3, OS: "linux", Arch: "amd64", CPUs: 2, Sites: map[string]string{"redis": "a <server> & more"},
	}
	for name := range chartMetrics {
		run.Cases = append(run.Cases, jsonCase{Name: name, About: "1 < 2 goroutines", Contestants: []standing{
			{Name: "<floor>", Role: floor, Site: "redis", Median: metrics{throughput: 1234567, handoverP50: 0}},
			{Name: "holdfast-with-a-long-name", Role: ours, Site: "redis", Median: metrics{waitP99: 12345678.9}},
			{Name: "failed", Role: peer, Site: "redis"},
			{Name: "elsewhere", Role: peer, Site: "etcd", Median: metrics{throughput: 1}},
		}})
	}
	drawn := run.pictures()
	if n := 2 * (len(chartMetrics) + 1); len(drawn) != n {
		t.Errorf("%d charts, want %d: %v", len(drawn), n, slices.Collect(maps.Keys(drawn)))
	}
	for name, svg := range drawn {
		checkSVG(t, name, svg)
		if !strings.Contains(svg, ">–<") || strings.Contains(svg, "elsewhere") {
			t.Errorf("%s has no dash for what is missing, or has what is on another site", name)
		}
	}
}

// checkSVG demands that a picture is well-formed and described, and that no text leaves it.
func checkSVG(t *testing.T, name, svg string) {
	t.Helper()
	var picture struct {
		Role  string `xml:"role,attr"`
		Title string `xml:"title"`
		Desc  string `xml:"desc"`
		Texts []struct {
			Class  string `xml:"class,attr"`
			Anchor string `xml:"text-anchor,attr"`
			X      int    `xml:"x,attr"`
			Text   string `xml:",chardata"`
		} `xml:"text"`
	}
	must(t, xml.Unmarshal([]byte(svg), &picture))
	if picture.Role != "img" || picture.Title == "" || picture.Desc == "" {
		t.Errorf("%s is not described", name)
	}
	for _, text := range picture.Texts {
		width := int(letterWidth * float64(len([]rune(text.Text))))
		if text.Class == "command" || text.Class == "quiet" {
			width = width * 9 / 10 // it is smaller
		}
		begin, end := text.X, text.X+width
		if text.Anchor == "end" {
			begin, end = text.X-width, text.X
		}
		if begin < 0 || end > chartWidth {
			t.Errorf("%s: %q is from %d to %d", name, text.Text, begin, end)
		}
	}
}

func TestAsTyped(t *testing.T) {
	var f flags
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.define(fs)
	args := "--store redis --cases=^(one|work)$ --json x.json --quick --rounds 7"
	must(t, fs.Parse(strings.Fields(args)))
	const want = "go -C bench run . --cases '^(one|work)$' --quick --rounds 7 --store redis"
	if got := asTyped(fs); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
