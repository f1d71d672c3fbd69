package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tables are two for each workload, in Markdown: the medians, and how they compare.
func (r *results) tables() string {
	out := &strings.Builder{}
	for _, result := range r.cases {
		w := result.workload
		standings := result.standings()
		if len(standings) == 0 {
			continue
		}
		fmt.Fprintf(out, "\n## %s: %s\n\n", w.Name, w.describe())
		writeTable(out, valueTable(w, standings))
		fmt.Fprintln(out)
		writeTable(out, ratioTable(w, standings))
		for _, s := range standings {
			for _, failure := range slices.Compact(s.Failures) {
				fmt.Fprintf(out, "\n%s: %s\n", s.Name, strings.TrimSpace(failure))
			}
		}
	}
	return out.String()
}

func (w *workload) describe() string {
	if w.Leases > 0 {
		return fmt.Sprintf("%s leases held for a ttl of %v by 1 process", thousands(float64(w.Leases), 0), w.TTL)
	}
	return w.About
}

func valueTable(w *workload, standings []standing) [][]string {
	head := []string{"median"}
	for _, name := range w.columns {
		head = append(head, meanings[name].title)
	}
	table := [][]string{head}
	for _, s := range standings {
		line := []string{s.Name}
		for _, name := range w.columns {
			line = append(line, format(s.Median, name))
		}
		table = append(table, line)
	}
	return table
}

// ratioTable has, for each compared metric, how much it is of the floor's and of the best peer's.
func ratioTable(w *workload, standings []standing) [][]string {
	head := []string{"to floor / to best peer"}
	for _, name := range w.compared {
		head = append(head, strings.TrimSuffix(meanings[name].title, " µs"))
	}
	table := [][]string{head}
	for _, s := range standings {
		line := []string{s.Name}
		for _, name := range w.compared {
			best := times(s.ToBest, name)
			if s.Name == s.BestPeer[name] {
				best = "best"
			}
			line = append(line, times(s.ToFloor, name)+" / "+best)
		}
		table = append(table, line)
	}
	return table
}

// absent stands where there is no value.
const absent = "–"

func format(m metrics, name metric) string {
	v, ok := m[name]
	if !ok {
		return absent
	}
	return thousands(v, meanings[name].decimals)
}

func times(m metrics, name metric) string {
	v, ok := m[name]
	if !ok {
		return absent
	}
	return thousands(v, 2)
}

// thousands writes a number with commas.
func thousands(v float64, decimals int) string {
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, rest, _ := strings.Cut(text, ".")
	first := len(whole) - len(strings.TrimPrefix(whole, "-")) // where the digits begin
	for i := len(whole) - 3; i > first; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return whole
}

// writeTable writes a table whose columns are aligned, the first to the left and the others to the right.
func writeTable(out *strings.Builder, table [][]string) {
	widths := make([]int, len(table[0]))
	for _, line := range table {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for n, line := range table {
		out.WriteString("|")
		for i, cell := range line {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				cell, gap = gap, cell
			}
			out.WriteString(" " + gap + cell + " |")
		}
		out.WriteString("\n")
		if n == 0 {
			out.WriteString("|" + strings.Repeat("-", widths[0]+2) + "|")
			for _, width := range widths[1:] {
				out.WriteString(strings.Repeat("-", width+1) + ":|")
			}
			out.WriteString("\n")
		}
	}
}
