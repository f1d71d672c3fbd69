package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/lab/report"
)

// writeRun writes a report of a run to a file: as SVG, JSON or text if its name ends so, and else as HTML.
func writeRun(path string, run *report.Run) error {
	write := run.WriteHTML
	switch strings.ToLower(filepath.Ext(path)) {
	case ".svg":
		write = run.WriteSVG
	case ".json":
		write = run.WriteJSON
	case ".txt":
		write = run.WriteText
	}
	file, err := os.Create(path)
	if err != nil {
		return exitWith(exitStore, "the report cannot be written: %w", err)
	}
	return errors.Join(write(file), file.Close())
}
