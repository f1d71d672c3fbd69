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
	return makeTable("median", w.columns, standings,
		func(name metric) string { return meanings[name].title },
		func(s *standing, name metric) string { return format(s.Median, name, meanings[name].decimals) })
}

// ratioTable has, for each compared metric, how much it is of the floor's and of the best peer's.
func ratioTable(w *workload, standings []standing) [][]string {
	return makeTable("to floor / to best peer", w.compared, standings,
		func(name metric) string { return strings.TrimSuffix(meanings[name].title, " µs") },
		func(s *standing, name metric) string {
			best := format(s.ToBest, name, 2)
			if s.Name == s.BestPeer[name] {
				best = "best"
			}
			return format(s.ToFloor, name, 2) + " / " + best
		})
}

// makeTable has a column for each metric and a line for each contestant.
func makeTable(corner string, names []metric, standings []standing,
	title func(metric) string, cell func(*standing, metric) string,
) [][]string {
	table := [][]string{{corner}}
	for _, name := range names {
		table[0] = append(table[0], title(name))
	}
	for _, s := range standings {
		line := []string{s.Name}
		for _, name := range names {
			line = append(line, cell(&s, name))
		}
		table = append(table, line)
	}
	return table
}

// format writes a value, or a dash where there is none.
func format(m metrics, name metric, decimals int) string {
	if v, ok := m[name]; ok {
		return thousands(v, decimals)
	}
	return "–"
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
