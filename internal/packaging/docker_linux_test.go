package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestDockerfile: the command that builds the image's program is that of .goreleaser.yaml, and the image's user is not
// root.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	testkit.Must(t, err)
	r := readRelease(t)
	args, env := r.build("$TARGETOS", "$TARGETARCH", "/out/holdfast")
	args[slices.Index(args, "-ldflags")+1] = `"` + args[slices.Index(args, "-ldflags")+1] + `"`
	want := "RUN " + strings.Join(env, " ") + " go " + strings.Join(args, " ") + "\n"
	if !strings.Contains(string(text), want) {
		t.Errorf("the Dockerfile lacks %s", want)
	}
	_, image, _ := strings.Cut(string(text), "\nFROM scratch\n")
	for _, part := range []string{
		"\nCOPY --from=build /out/holdfast /holdfast\n", "\nUSER 65532:65532\n", "\nENTRYPOINT [\"/holdfast\"]\n",
		" /etc/ssl/certs/ca-certificates.crt\n", "THIRD-PARTY-LICENSES",
	} {
		if !strings.Contains(image, part) {
			t.Errorf("the image lacks %q", part)
		}
	}
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	testkit.Must(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(module))
	if !strings.Contains(string(text), " golang:"+version[1]+" AS build\n") {
		t.Errorf("go.mod needs Go %s, and the Dockerfile builds with another", version[1])
	}
}

// TestEmptyRoot: the program as it is built for the image is static, and runs where there is no other file.
func TestEmptyRoot(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "holdfast")
	r := readRelease(t)
	r.runBuild(t, root, "linux", runtime.GOARCH, path)
	file, err := elf.Open(path)
	testkit.Must(t, err)
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: it has a segment %v", p.Type)
		}
	}
	call := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "/holdfast", args...)
		cmd.Env = []string{"HOLDFAST_STORE=redis://127.0.0.1:1"} // where no server listens
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: folder}
		if os.Getuid() != 0 { // in a namespace of its own it may change the root
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := call("version")
	if err != nil && os.Getuid() != 0 && strings.Contains(err.Error(), "operation not permitted") {
		t.Skip("neither root nor a user namespace: the root folder cannot be changed here")
	}
	if err != nil || !strings.HasPrefix(out, "holdfast ") {
		t.Fatalf("%v: %s", err, out)
	}
	// With a store it fails because of the store, and of nothing that is missing in the root. A file would not do: the
	// store on SQLite needs /proc, which containers have.
	if out, err := call("ls"); err == nil || !strings.Contains(out, "connection refused") {
		t.Errorf("%v: %s", err, out)
	}
}
