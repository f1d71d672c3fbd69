package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// root is the repository, as seen from this package.
const root = "../.."

// A release is the part of .goreleaser.yaml that is compared with the repository.
type release struct {
	Version int
	Before  struct{ Hooks []string }
	Builds  []struct {
		Main                              string
		Env, Flags, Ldflags, Goos, Goarch []string
	}
	Archives []struct{ Files []struct{ Src, Dst string } }
	Nfpms    []struct {
		Formats  []string
		Bindir   string
		Contents []struct {
			Src, Dst, Type string
			FileInfo       struct{ Mode int } `yaml:"file_info"`
		}
	}
}

// readRelease reads .goreleaser.yaml.
func readRelease(t *testing.T) (r release) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	testkit.Must(t, err)
	testkit.Must(t, yaml.Unmarshal(text, &r))
	if r.Version != 2 || len(r.Builds) != 1 || len(r.Archives) != 1 || len(r.Nfpms) != 1 {
		t.Fatalf("not as these tests read it: %+v", r)
	}
	return r
}

// build returns the arguments and the environment of the build that .goreleaser.yaml describes.
func (r *release) build(system, arch, output string) (args, env []string) {
	b := r.Builds[0]
	args = append([]string{"build"}, b.Flags...)
	args = append(args, "-ldflags", strings.Join(b.Ldflags, " "), "-o", output, b.Main)
	return args, slices.Concat(b.Env, []string{"GOOS=" + system, "GOARCH=" + arch})
}

// runBuild builds the program as .goreleaser.yaml describes it, in a checkout. Nothing of git is stamped: a checkout
// that is being worked on differs from one minute to the next.
func (r *release) runBuild(t *testing.T, checkout, system, arch, output string) {
	t.Helper()
	args, env := r.build(system, arch, output)
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Dir = checkout
	build.Env = slices.Concat(os.Environ(), env, []string{"GOFLAGS=-buildvcs=false", "GOWORK=off"})
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go %s for %s/%s: %v\n%s", strings.Join(args, " "), system, arch, err, out)
	}
}

// TestTargets: the program is built for the systems that users have, and what a build leaves out is known here too.
func TestTargets(t *testing.T) {
	r := readRelease(t)
	b := r.Builds[0]
	if !slices.Equal(b.Goos, systems) || !slices.Equal(b.Goarch, []string{"amd64", "arm64"}) {
		t.Errorf("built for %q on %q", b.Goos, b.Goarch)
	}
	if !slices.Contains(b.Env, "CGO_ENABLED=0") || !slices.Contains(b.Flags, "-trimpath") {
		t.Errorf("the build is not static, or not reproducible: %q %q", b.Env, b.Flags)
	}
	if os.Getenv("HOLDFAST_DIST") == "" {
		return // make dist builds all: from nothing each takes minutes
	}
	for _, system := range b.Goos {
		for _, arch := range b.Goarch {
			r.runBuild(t, root, system, arch, os.DevNull)
		}
	}
}

// built are the files that the hook of .goreleaser.yaml writes, in a folder of their own.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, write(t.Context(), filepath.Join(dir, "build"), "1.2.3", 1_700_000_000))
	return dir
}

// TestGoreleaser: all files that .goreleaser.yaml names exist, in the repository or among those that its hook writes,
// all files that the hook writes are used, and each goes where Debian has it.
func TestGoreleaser(t *testing.T) {
	r, dir := readRelease(t), built(t)
	hook := "go run ./internal/packaging -version {{ .Version }} -date {{ .CommitTimestamp }} build"
	if !slices.Equal(r.Before.Hooks, []string{hook}) {
		t.Errorf("the hooks are %q", r.Before.Hooks)
	}
	matches := func(pattern string) []string {
		t.Helper()
		in := root
		if strings.HasPrefix(pattern, "build/") {
			in = dir
		}
		found, err := filepath.Glob(filepath.Join(in, pattern))
		testkit.Must(t, err)
		if len(found) == 0 {
			t.Errorf("there is no %s", pattern)
		}
		return found
	}
	archived, packed := map[string]bool{}, map[string]string{}
	for _, f := range r.Archives[0].Files {
		for _, file := range matches(f.Src) {
			archived[file] = true
		}
	}
	for _, c := range r.Nfpms[0].Contents {
		for _, file := range matches(c.Src) {
			to := c.Dst
			if strings.HasSuffix(to, "/") {
				to += filepath.Base(file)
			}
			if other := packed[to]; other != "" {
				t.Errorf("%s and %s are both packed as %s", file, other, to)
			}
			packed[to] = file
			if info, err := os.Stat(file); err != nil || info.IsDir() {
				t.Errorf("%s is not a file: %v", file, err)
			}
		}
		if secret := strings.HasPrefix(c.Dst, "/etc/"); secret != (c.FileInfo.Mode == 0o600) ||
			secret != (c.Type == "config|noreplace") || !secret && c.FileInfo.Mode != 0o644 {
			t.Errorf("%s has mode %o and type %q", c.Dst, c.FileInfo.Mode, c.Type)
		}
	}
	written, err := filepath.Glob(filepath.Join(dir, "build", "*", "*"))
	testkit.Must(t, err)
	if len(written) < 25 {
		t.Errorf("only %d files were written", len(written))
	}
	for _, file := range written {
		used := false
		for _, other := range packed {
			used = used || other == file
		}
		if !archived[file] || !used && filepath.Ext(file) != ".ps1" {
			t.Errorf("%s is not in the archives, or not in the package", file)
		}
	}
	for _, to := range []string{
		"/usr/share/man/man1/holdfast.1.gz", "/usr/share/man/man1/holdfast-run.1.gz",
		"/usr/share/man/man7/holdfast-exit-codes.7.gz", "/usr/share/bash-completion/completions/holdfast",
		"/usr/share/zsh/vendor-completions/_holdfast", "/usr/share/fish/vendor_completions.d/holdfast.fish",
		"/usr/lib/systemd/system/holdfast-exporter.service", "/etc/default/holdfast-exporter",
		"/usr/share/doc/holdfast/copyright", "/usr/share/doc/holdfast/THIRD-PARTY-LICENSES",
		"/usr/share/doc/holdfast/examples/systemd/nightly.timer",
		"/usr/share/doc/holdfast/examples/kubernetes/cronjob.yaml",
	} {
		if packed[to] == "" {
			t.Errorf("the package has no %s", to)
		}
	}
	if r.Nfpms[0].Bindir != "/usr/bin" {
		t.Errorf("the units call /usr/bin/holdfast, and the program is in %s", r.Nfpms[0].Bindir)
	}
}

// TestWrittenFiles: the same source gives the same files, and they have what they are named after.
func TestWrittenFiles(t *testing.T) {
	one, other := built(t), built(t)
	read := func(dir, file string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "build", file))
		testkit.Must(t, err)
		return string(text)
	}
	for file, part := range map[string]string{
		"completions/holdfast.bash": "__start_holdfast", "completions/_holdfast": "#compdef holdfast",
		"completions/holdfast.fish": "complete -c holdfast", "completions/holdfast.ps1": "Register-ArgumentCompleter",
		"THIRD-PARTY-LICENSES": "github.com/spf13/cobra",
	} {
		if !strings.Contains(read(one, file), part) {
			t.Errorf("%s lacks %q", file, part)
		}
	}
	for _, file := range []string{"man/holdfast.1.gz", "man/holdfast-run.1.gz", "THIRD-PARTY-LICENSES"} {
		if read(one, file) != read(other, file) {
			t.Errorf("%s differs from one time to the next", file)
		}
	}
	text := read(one, "THIRD-PARTY-LICENSES")
	modules, err := linkedModules(t.Context())
	testkit.Must(t, err)
	for name, m := range modules {
		files, err := filepath.Glob(filepath.Join(m.root, "LICENSE*"))
		testkit.Must(t, err)
		for _, file := range files {
			licence, err := os.ReadFile(file)
			testkit.Must(t, err)
			if !strings.Contains(text, "\n"+name+": "+filepath.Base(file)+"\n") ||
				!strings.Contains(text, strings.TrimSpace(string(licence))) {
				t.Errorf("THIRD-PARTY-LICENSES lacks %s of %s", filepath.Base(file), name)
			}
		}
	}
	if len(modules) < 40 || modules["Go"] == nil {
		t.Errorf("only %d modules are linked", len(modules))
	}
}

// TestReproducible: two checkouts in different folders give the same program.
func TestReproducible(t *testing.T) {
	r := readRelease(t)
	list := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	out, err := list.Output()
	testkit.Must(t, err)
	checkout := t.TempDir()
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		if content, err := os.ReadFile(filepath.Join(root, file)); err == nil { // and not deleted
			testkit.Must(t, writeFile(filepath.Join(checkout, file), content))
		}
	}
	folder := t.TempDir()
	var programs [2][]byte
	for i, from := range []string{root, checkout} {
		path := filepath.Join(folder, "holdfast")
		r.runBuild(t, from, runtime.GOOS, runtime.GOARCH, path)
		programs[i], err = os.ReadFile(path)
		testkit.Must(t, err)
	}
	if !slices.Equal(programs[0], programs[1]) {
		t.Error("the program depends on the folder that it was built in")
	}
}
