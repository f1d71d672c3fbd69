package holdfast_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCoreBringsNothingAlong makes a module that imports the core alone, as a user would, and looks at what it
// gets: the standard library, and no requirement beside this module.
func TestCoreBringsNothingAlong(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/holdfast-go/holdfast"
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module scratch\n\ngo 1.26\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + here + "\n",
		"main.go": "package main\n\nimport _ \"" + module + "\"\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off", "GONOSUMDB=*", "GONOSUMCHECK=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("mod", "tidy")
	for line := range strings.Lines(run("list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")) {
		if p := strings.TrimSpace(line); p != "scratch" && p != module && !strings.HasPrefix(p, module+"/") {
			t.Errorf("the core imports %s", p)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), " v"); n != 1 {
		t.Errorf("go.mod requires more than this module:\n%s", text)
	}
}
