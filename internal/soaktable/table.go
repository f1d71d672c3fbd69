package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/report"
)

// A column is a group of similar faults, by their names in verify.
type column struct {
	title  string
	faults []string
}

// columns are the columns of the table. A fault that is in none of them gets its own.
var columns = []column{
	{"paused", []string{"pause", "pause-writer"}},
	{"killed", []string{"kill"}},
	{"starved", []string{"starve"}},
	{"cut off", []string{"cut", "silence"}},
	{"delayed", []string{"delay", "late"}},
	{"server killed", []string{"server-kill", "leader-kill", "master-kill", "minority-kill", "all-kill"}},
	{"server stopped", []string{"server-stop", "leader-stop", "master-stop", "minority-stop", "majority-stop"}},
	{"data lost", []string{"server-loses-data", "server-loses-tail", "node-loses-data"}},
	{"failover", []string{"failover", "split"}},
	{"connections ended", []string{"client-kill", "backends-end", "connections-end", "script-flush"}},
	{"clock set", []string{"clock-back", "clock-forward"}},
}

// A row is the result of one run.
type row struct {
	store       string
	run         *report.Run
	done, found map[string]int // by fault: how often it was injected, and how many violations followed
}

// noFault is the key of findings before the first fault.
const noFault = ""

func newRow(store string, run *report.Run) row {
	r := row{store: store, run: run, done: map[string]int{}, found: map[string]int{}}
	for _, f := range run.Faults {
		r.done[f.Name]++
	}
	for _, c := range run.Checks {
		if c.Calibration {
			continue
		}
		for _, f := range c.Findings {
			r.found[blame(run.Faults, f.Begin)]++
		}
	}
	return r
}

// blame returns the fault that began last before an instant.
func blame(faults []report.Fault, at history.Instant) string {
	last := report.Fault{Name: noFault, Interval: history.Interval{Begin: -1}}
	for _, f := range faults {
		if f.Begin <= at && f.Begin >= last.Begin {
			last = f
		}
	}
	return last.Name
}

// figure returns a figure of the run by its name, or 0.
func (r row) figure(name string) float64 {
	for _, f := range r.run.Figures {
		if f.Name == name {
			return f.Value
		}
	}
	return 0
}

// cell returns how often the faults of a column were injected, and how many violations followed.
func (r row) cell(c column) string {
	done, found := 0, 0
	for _, name := range c.faults {
		done += r.done[name]
		found += r.found[name]
	}
	if done == 0 {
		return "–"
	}
	return fmt.Sprintf("%d / %s", done, emphasized(found))
}

// emphasized returns a number of violations, in bold if there are any.
func emphasized(n int) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("**%d**", n)
}

// writeTable writes the rows, and the commands that repeat them.
func writeTable(w *strings.Builder, rows []row, words language) {
	rows = slices.SortedStableFunc(slices.Values(rows), func(a, b row) int { return cmp.Compare(a.store, b.store) })
	shown := shownColumns(rows)
	head := slices.Clone(words.head)
	for _, c := range shown {
		head = append(head, words.title(c))
	}
	head = append(head, words.lost)
	writeLine(w, head)
	writeLine(w, slices.Repeat([]string{"---"}, len(head)))
	for _, r := range rows {
		cells := []string{
			r.store, r.run.End.Sub(r.run.Begin).Round(time.Second).String(), fmt.Sprint(r.run.Operations),
			emphasized(r.run.Violations()),
		}
		for _, c := range shown {
			cells = append(cells, r.cell(c))
		}
		cells = append(cells,
			fmt.Sprintf("%v / %v", r.figure("updates lost without a fence"), r.figure("updates lost behind the fence")))
		writeLine(w, cells)
	}
	fmt.Fprintf(w, "\n%s\n\n", words.legend)
	for _, c := range shown {
		fmt.Fprintf(w, "- %s%s`%s`\n", words.title(c), words.colon, strings.Join(done(rows, c), ","))
	}
	fmt.Fprintf(w, "\n%s\n|---|---|---|---|\n", words.commands)
	for _, r := range rows {
		names := strings.Join(slices.Sorted(maps.Keys(r.done)), ",")
		fmt.Fprintf(w, "| %s | %s | %s | `%s` |\n", r.store, r.run.Started.UTC().Format(time.DateOnly), names,
			r.run.Command)
	}
}

func writeLine(w *strings.Builder, cells []string) {
	fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}

// shownColumns returns the columns that are not empty, and one for each fault that is in none of them.
func shownColumns(rows []row) []column {
	all := slices.Clone(columns)
	for _, r := range rows {
		for _, f := range r.run.Faults {
			if !slices.ContainsFunc(all, func(c column) bool { return slices.Contains(c.faults, f.Name) }) {
				all = append(all, column{f.Name, []string{f.Name}})
			}
		}
	}
	return slices.DeleteFunc(all, func(c column) bool { return len(done(rows, c)) == 0 })
}

// done returns the faults of a column that were injected in any of the runs.
func done(rows []row, c column) []string {
	var names []string
	for _, name := range c.faults {
		if slices.ContainsFunc(rows, func(r row) bool { return r.done[name] > 0 }) {
			names = append(names, name)
		}
	}
	return names
}
