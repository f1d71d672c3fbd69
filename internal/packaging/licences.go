package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// program is the package that packages contain.
const program = "github.com/holdfast-go/holdfast/cmd/holdfast"

// systems are those that the program is built for. Each links other modules.
var systems = []string{"linux", "darwin", "windows"}

// licenceFile matches the names of files that have to be distributed with a program.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)`)

// licences returns the licences of all modules that are linked into the program on any system, and that of Go.
func licences(ctx context.Context) ([]byte, error) {
	modules, err := linkedModules(ctx)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("The program holdfast contains code of the modules below, under these licences.\n" +
		"Holdfast itself is under the Apache License 2.0.\n")
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		if err := writeLicences(&b, name, modules[name]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// A module is a linked module: its root, and the folders of its packages that are linked.
type module struct {
	root    string
	folders map[string]bool
}

// linkedModules returns the modules by path and version. The standard library is one of them.
func linkedModules(ctx context.Context) (map[string]*module, error) {
	all := map[string]*module{}
	for _, system := range systems {
		list := exec.CommandContext(ctx, "go", "list", "-deps", "-f",
			`{{.Dir}}|{{if .Standard}}Go|{{.Root}}{{else}}`+
				`{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}|{{.Dir}}{{end}}{{end}}{{end}}`, program)
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		var complaint bytes.Buffer
		list.Stderr = &complaint
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w: %s", system, err, complaint.String())
		}
		for line := range strings.Lines(string(out)) {
			parts := strings.Split(strings.TrimSpace(line), "|")
			if len(parts) != 3 {
				continue // Holdfast itself
			}
			if all[parts[1]] == nil {
				all[parts[1]] = &module{root: parts[2], folders: map[string]bool{}}
			}
			all[parts[1]].folders[parts[0]] = true
		}
	}
	return all, nil
}

// writeLicences writes the files of a module: those of its root, and of all folders on the way to linked packages.
func writeLicences(b *bytes.Buffer, name string, m *module) error {
	folders := map[string]bool{m.root: true}
	for folder := range m.folders {
		for ; len(folder) > len(m.root); folder = filepath.Dir(folder) {
			folders[folder] = true
		}
	}
	found := 0
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !licenceFile.MatchString(e.Name()) || !e.Type().IsRegular() || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				return err
			}
			within, err := filepath.Rel(m.root, filepath.Join(folder, e.Name()))
			if err != nil {
				return err
			}
			found++
			rule := strings.Repeat("=", 80)
			title := name + ": " + filepath.ToSlash(within)
			fmt.Fprintf(b, "\n%s\n%s\n%s\n\n%s\n", rule, title, rule, bytes.TrimSpace(text))
		}
	}
	if found == 0 {
		return errors.New(name + " has no licence, and must not be distributed")
	}
	return nil
}
