package holdfast_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/holdfast-go/holdfast"

// TestNothingElseComesAlong makes a module that imports the core and one store, as a user would, and looks at what it
// gets: what that store needs, and nothing of the others.
func TestNothingElseComesAlong(t *testing.T) {
	for imports, allowed := range map[string][]string{
		"":           {},
		"memstore":   {},
		"fence":      {},
		"redisstore": {"github.com/redis/rueidis", "golang.org/x/sys"},
		"redlock":    {"github.com/redis/rueidis", "golang.org/x/sys"},
		"redisstore/goredis": {"github.com/redis/rueidis", "github.com/redis/go-redis/v9",
			"github.com/cespare/xxhash/v2",
			"go.uber.org/atomic", "golang.org/x/sys"},
		"etcdstore": {"go.etcd.io/etcd/", "google.golang.org/", "go.uber.org/zap", "go.uber.org/multierr",
			"github.com/coreos/go-semver",
			"github.com/coreos/go-systemd", "github.com/golang/protobuf", "github.com/grpc-ecosystem/grpc-gateway",
			"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text"},
		"consulstore":       {},
		"zkstore":           {"github.com/go-zookeeper/zk"},
		"sqlstore/mysql":    {"github.com/go-sql-driver/mysql", "filippo.io/edwards25519"},
		"sqlstore/postgres": {"github.com/jackc/", "golang.org/x/sync", "golang.org/x/text"},
		"sqlstore/sqlite": {"modernc.org/", "golang.org/x/sys", "github.com/dustin/go-humanize",
			"github.com/google/uuid",
			"github.com/mattn/go-isatty", "github.com/ncruces/go-strftime", "github.com/remyoudompheng/bigfft"},
	} {
		t.Run(imports, func(t *testing.T) {
			t.Parallel()
			scratch := newScratch(t, imports)
			scratch.run("mod", "tidy", "-e") // -e: what only the tests of a dependency need may not be at hand
			for _, required := range scratch.required() {
				if !slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(required, a) }) {
					t.Errorf("go.mod requires %s", required)
				}
			}
			for imported := range strings.FieldsSeq(scratch.run("list", "-deps", "-f",
				"{{if not .Standard}}{{.ImportPath}}{{end}}", ".")) {
				own := imported == "scratch" || imported == module || strings.HasPrefix(imported, module+"/")
				if !own && !slices.ContainsFunc(allowed,
					func(a string) bool { return strings.HasPrefix(imported, a) }) {
					t.Errorf("it imports %s", imported)
				}
			}
		})
	}
}

// A scratch is a user's module.
type scratch struct {
	*testing.T
	dir string
}

func newScratch(t *testing.T, imports string) *scratch {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	main := "package main\n\nimport _ \"" + module + "\"\n"
	if imports != "" {
		main += "import _ \"" + module + "/" + imports + "\"\n"
	}
	s := &scratch{t, t.TempDir()}
	for name, text := range map[string]string{
		"go.mod": "module scratch\n\ngo 1.26\n\nrequire " + module + " v0.0.0\n\nreplace " + module + " => " + here +
			"\n",
		"main.go": main + "\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// run runs the go command in the module. All that it needs was fetched for this module.
func (s *scratch) run(args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), "go", args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off", "GONOSUMDB=*", "GONOSUMCHECK=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// required are the modules in its go.mod, but for this one.
func (s *scratch) required() []string {
	s.Helper()
	written, err := os.ReadFile(filepath.Join(s.dir, "go.mod"))
	if err != nil {
		s.Fatal(err)
	}
	var required []string
	for line := range strings.Lines(string(written)) {
		word := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(word) > 1 && strings.HasPrefix(word[1], "v") && word[0] != module {
			required = append(required, word[0])
		}
	}
	return required
}
