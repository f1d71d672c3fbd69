// Command packaging writes the files that packages of holdfast contain beside the program and what is in the
// repository:
//
//	go run ./internal/packaging [-version VERSION] [-date SECONDS] build
//
// These are the man pages, compressed as Debian wants them, the completions of shells, and the licences of all modules
// that are linked into the program. The same source gives the same bytes: the date in the man pages is
// that of the flag, or is left out.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/manpages"
)

func main() {
	version := flag.String("version", "", "the version that man pages show")
	date := flag.Int64("date", 0, "the date that man pages show, in seconds since 1970")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: packaging [-version VERSION] [-date SECONDS] DIR")
		os.Exit(64)
	}
	if err := write(context.Background(), flag.Arg(0), *version, *date); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// write writes all files into dir.
func write(ctx context.Context, dir, version string, date int64) error {
	if err := writeManPages(filepath.Join(dir, "man"), version, date); err != nil {
		return err
	}
	if err := writeCompletions(filepath.Join(dir, "completions")); err != nil {
		return err
	}
	text, err := licences(ctx)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "THIRD-PARTY-LICENSES"), text)
}

// writeFile writes a file that all users may read, and the folder that it is in.
func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// writeManPages writes a page for each command.
func writeManPages(dir, version string, date int64) error {
	header := manpages.Header{
		Manual: "Holdfast Manual", Version: version, URL: "https://github.com/holdfast-go/holdfast",
	}
	if date > 0 {
		header.Date = time.Unix(date, 0)
	}
	for _, page := range manpages.Pages(cli.Command(), header) {
		packed, err := compress(page.Text)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, page.File()+".gz"), packed); err != nil {
			return err
		}
	}
	return nil
}

// compress returns text as gzip -9n does: without a name and a time.
func compress(text string) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(w, text)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// completions are the files of the completions, by shell.
var completions = map[string]string{
	"bash": "holdfast.bash", "zsh": "_holdfast", "fish": "holdfast.fish", "powershell": "holdfast.ps1",
}

// writeCompletions writes the completions of all shells.
func writeCompletions(dir string) error {
	for shell, file := range completions {
		var script, complaint bytes.Buffer
		if code := cli.Main([]string{"completion", shell}, nil, &script, &complaint); code != 0 {
			return fmt.Errorf("holdfast completion %s exits with %d: %s", shell, code, complaint.String())
		}
		if err := writeFile(filepath.Join(dir, file), script.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
