// Command packaging writes the files that packages of holdfast contain beside the program and what is in the
// repository:
//
//	go run ./internal/packaging [-version VERSION] build
//
// These are the man pages, compressed as Debian wants them, the completions of shells, and the licences of all modules
// that are linked into the program. The same source gives the same bytes: the date in the man pages is
// SOURCE_DATE_EPOCH, or is left out.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/manpages"
)

func main() {
	version := flag.String("version", "", "the version that man pages show")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: packaging [-version VERSION] DIR")
		os.Exit(64)
	}
	if err := write(context.Background(), flag.Arg(0), *version); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// write writes all files into dir.
func write(ctx context.Context, dir, version string) error {
	if err := writeManPages(filepath.Join(dir, "man"), version); err != nil {
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
func writeManPages(dir, version string) error {
	header := manpages.Header{Manual: "Holdfast Manual", Version: version, URL: "https://github.com/holdfast-go/holdfast"}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		header.Date = time.Unix(seconds, 0)
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
	if _, err := w.Write([]byte(text)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// completions are the files of the completions, by shell.
var completions = map[string]string{
	"bash": "holdfast.bash", "zsh": "_holdfast", "fish": "holdfast.fish", "powershell": "holdfast.ps1",
}

// writeCompletions writes the completions of all shells.
func writeCompletions(dir string) error {
	for shell, file := range completions {
		var script, errors bytes.Buffer
		if code := cli.Main([]string{"completion", shell}, nil, &script, &errors); code != 0 {
			return fmt.Errorf("holdfast completion %s exits with %d: %s", shell, code, errors.String())
		}
		if err := writeFile(filepath.Join(dir, file), script.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
