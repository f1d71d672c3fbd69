// Command soaktable writes the results of runs of holdfast verify as a table into a page, between two markers:
//
//	soaktable docs/guarantees.md reports/redis.json reports/etcd.json
//
// A report is named after its store. The table has a row for each store and a column for each kind of fault: how often
// it was injected, and how many violations were found from its beginning until that of the next. If the page has a
// Chinese translation beside it (guarantees.zh-CN.md), the table is written into that too.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/lab/report"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: soaktable PAGE REPORT.json...")
		os.Exit(64)
	}
	if err := merge(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "soaktable:", err)
		os.Exit(1)
	}
}

// merge reads the reports and writes their table into a page and its translation.
func merge(page string, paths []string) error {
	var rows []row
	for _, path := range paths {
		run, err := readRun(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		rows = append(rows, newRow(strings.TrimSuffix(filepath.Base(path), ".json"), run))
	}
	if err := write(page, rows, english); err != nil {
		return err
	}
	translation := strings.TrimSuffix(page, ".md") + ".zh-CN.md"
	if err := write(translation, rows, chinese); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write writes the table of the rows into a page.
func write(page string, rows []row, words language) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	var b strings.Builder
	writeTable(&b, rows, words)
	replaced, err := replace(string(text), b.String())
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(replaced), 0o644) //nolint:gosec // it is documentation
}

func readRun(path string) (run *report.Run, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	return report.ReadJSON(file)
}

// The markers between which the table is.
const (
	beginMarker = "<!-- soak: begin, written by make soak -->\n"
	endMarker   = "<!-- soak: end -->\n"
)

// replace puts a table between the markers of a page.
func replace(page, table string) (string, error) {
	before, rest, ok := strings.Cut(page, beginMarker)
	_, after, also := strings.Cut(rest, endMarker)
	if !ok || !also {
		return "", fmt.Errorf("it has no lines %q and %q", strings.TrimSpace(beginMarker), strings.TrimSpace(endMarker))
	}
	return before + beginMarker + "\n" + table + "\n" + endMarker + after, nil
}
