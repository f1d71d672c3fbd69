package docs_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/servers"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

const module = "github.com/holdfast-go/holdfast"

// ours are the imports that a fragment may use without naming them, by the name that it uses.
var ours = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "log": "log", "os": "os",
	"slog": "log/slog", "syscall": "syscall",
	"sql": "database/sql", "time": "time", "testing": "testing", "synctest": "testing/synctest", "tls": "crypto/tls",
	"holdfast":     module,
	"fence":        module + "/fence",
	"memstore":     module + "/memstore",
	"redisstore":   module + "/redisstore",
	"goredis":      module + "/redisstore/goredis",
	"redlock":      module + "/redlock",
	"etcdstore":    module + "/etcdstore",
	"zkstore":      module + "/zkstore",
	"consulstore":  module + "/consulstore",
	"sqlite":       module + "/sqlstore/sqlite",
	"postgres":     module + "/sqlstore/postgres",
	"mysql":        module + "/sqlstore/mysql",
	"otelholdfast": module + "/otelholdfast",
	"store":        module + "/store",
	"frame":        module + "/store/frame",
	"storetest":    module + "/store/storetest",
	"rueidis":      "github.com/redis/rueidis",
	"redis":        "github.com/redis/go-redis/v9",
	"clientv3":     "go.etcd.io/etcd/client/v3",
	"zk":           "github.com/go-zookeeper/zk",
	"pgx":          "github.com/jackc/pgx/v5/stdlib", // a driver, in whole files
	"gocronlock":   module + "/adapters/gocronlock",
	"cronlock":     module + "/adapters/cronlock",
	"httplock":     module + "/adapters/httplock",
	"gocron":       "github.com/go-co-op/gocron/v2",
	"cron":         "github.com/robfig/cron/v3",
}

// The imports of blocks that show an adapter which is a module of its own.
var (
	withMigrate = map[string]string{
		"context": "context", "errors": "errors", "holdfast": module,
		"migratelock": module + "/adapters/migratelock",
		"migrate":     "github.com/golang-migrate/migrate/v4",
		"source":      "github.com/golang-migrate/migrate/v4/source",
		"database":    "github.com/golang-migrate/migrate/v4/database",
	}
	withGoose = map[string]string{
		"context": "context", "os": "os", "sql": "database/sql", "holdfast": module,
		"gooselock": module + "/adapters/gooselock",
		"goose":     "github.com/pressly/goose/v3",
	}
)

// theirs are the imports of blocks that show another lock, from the module bench.
var theirs = map[string]string{
	"context":     "context",
	"time":        "time",
	"holdfast":    module, // in blocks that take both locks
	"redsync":     "github.com/go-redsync/redsync/v4",
	"goredis":     "github.com/go-redsync/redsync/v4/redis/goredis/v9",
	"redis":       "github.com/go-redsync/redsync/v4/redis",
	"v9":          "github.com/redis/go-redis/v9",
	"redislock":   "github.com/bsm/redislock",
	"rueidis":     "github.com/redis/rueidis",
	"rueidislock": "github.com/redis/rueidis/rueidislock",
	"api":         "github.com/hashicorp/consul/api",
	"clientv3":    "go.etcd.io/etcd/client/v3",
	"concurrency": "go.etcd.io/etcd/client/v3/concurrency",
}

// given is what a fragment may use without declaring it: the surroundings that a reader imagines. The first word is the
// package of the type.
var given = map[string]string{
	"ctx":     "context context.Context",
	"url":     "_ string",
	"text":    "_ string",
	"send":    "context func(context.Context) error",
	"token":   "holdfast holdfast.Token",
	"db":      "sql *sql.DB",
	"locks":   "holdfast *holdfast.Client",
	"lease":   "holdfast *holdfast.Lease",
	"server":  "memstore *memstore.Server",
	"t":       "testing *testing.T",
	"stop":    "_ chan struct{}",
	"client":  "rueidis rueidis.Client",
	"goRedis": "redis redis.UniversalClient",
}

// givenToTheirs is the same for blocks that show another lock.
var givenToTheirs = map[string]string{
	"ctx":    "context context.Context",
	"send":   "context func(context.Context) error",
	"stop":   "_ chan struct{}",
	"locks":  "holdfast *holdfast.Client",
	"consul": "api *api.Client",
	"etcd":   "clientv3 *clientv3.Client",
	"client": "v9 v9.UniversalClient",
	"pool":   "redis redis.Pool",
	"c1":     "v9 v9.UniversalClient",
	"c2":     "v9 v9.UniversalClient",
	"c3":     "v9 v9.UniversalClient",
}

// givenToMigrations is the same for blocks that show an adapter for migrations.
var givenToMigrations = map[string]string{
	"ctx":    "context context.Context",
	"locks":  "holdfast *holdfast.Client",
	"db":     "sql *sql.DB",
	"files":  "source source.Driver",
	"driver": "database database.Driver",
}

// A surrounding is what the blocks of one kind may use.
type surrounding struct {
	dir       string // of the module, from root
	is        func(code string) bool
	paths     map[string]string
	variables map[string]string
}

// surroundings are all kinds of blocks. A block is of the first kind that it is.
var surroundings = []surrounding{
	{"bench", isTheirs, theirs, givenToTheirs},
	{"adapters/migratelock", uses("migratelock."), withMigrate, givenToMigrations},
	{"adapters/gooselock", uses("gooselock."), withGoose, givenToMigrations},
	{".", uses(""), ours, given},
}

// surroundingOf returns the index of a block's surrounding.
func surroundingOf(code string) int {
	return slices.IndexFunc(surroundings, func(s surrounding) bool { return s.is(code) })
}

// uses returns a function that reports whether a block has this text.
func uses(text string) func(string) bool {
	return func(code string) bool { return strings.Contains(code, text) }
}

// TestGoBlocks type-checks the Go code blocks of all pages. A block is a whole file, declarations, or the inside of a
// function. The pages of examples quote their own code, which is compiled where it is.
func TestGoBlocks(t *testing.T) {
	checked := 0
	for _, p := range pages(t) {
		if strings.HasPrefix(p.path, "examples/") {
			continue
		}
		for _, b := range p.blocks {
			if b.language != "go" || strings.Contains(b.code, "stock.read()") { // the one in pseudocode
				continue
			}
			checked++
			if err := check(t, b.code); err != nil {
				t.Errorf("%s:%d: %v", p.path, b.line, err)
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d blocks were checked", checked)
	}
}

// TestGoBlocksCanFail: what the check is there to find, it finds.
func TestGoBlocksCanFail(t *testing.T) {
	for _, code := range []string{
		"locks, err := holdfast.Open(ctx)",                        // an argument is missing
		"lease.Release(ctx)",                                      // no such method
		"package main\n\nfunc main() { undefined() }",             // no such function
		"func f() { return 1 }",                                   // a declaration that is wrong
		"locks.Mutex(\"x\").Do(ctx, func() error { return nil })", // a function of another type
		"gooselock.New(locks)",                                    // in another module
		"migratelock.New(locks)",
	} {
		if check(t, code) == nil {
			t.Errorf("%q passed", code)
		}
	}
}

// check type-checks a block of code. That a fragment does not use what it declares is no error.
func check(t *testing.T, code string) error {
	t.Helper()
	all, err := exports()
	testkit.Must(t, err)
	files := all[surroundingOf(code)]
	fset := token.NewFileSet()
	file, err := parseBlock(fset, code)
	if err != nil {
		return err
	}
	var first error
	config := types.Config{
		Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			if files[path] == "" {
				return nil, fmt.Errorf("%s is not among the packages that blocks may import", path)
			}
			return os.Open(files[path])
		}),
		Error: func(err error) {
			if e, ok := errors.AsType[types.Error](err); ok && !e.Soft && first == nil {
				first = err
			}
		},
	}
	config.Check("block", fset, []*ast.File{file}, nil) //nolint:errcheck // Error has seen it
	return first
}

// parseBlock parses a block as a file, as declarations, or as statements, whichever it is. Fragments get the imports
// and variables that they use and do not declare.
func parseBlock(fset *token.FileSet, code string) (*ast.File, error) {
	if strings.HasPrefix(code, "package ") {
		return parser.ParseFile(fset, "block.go", code, 0)
	}
	if file, err := parser.ParseFile(fset, "block.go", "package block\n"+code, 0); err == nil {
		return parser.ParseFile(fset, "block.go", "package block\n"+header(file, code)+code, 0)
	}
	body := "func _() error {\n" + code + "\nreturn nil\n}\n"
	file, err := parser.ParseFile(fset, "block.go", "package block\n"+body, 0)
	if err != nil {
		return nil, err
	}
	return parser.ParseFile(fset, "block.go", "package block\n"+header(file, code)+body, 0)
}

// isTheirs reports whether a block shows another lock.
func isTheirs(code string) bool {
	return slices.ContainsFunc(
		[]string{"redsync.", "redislock.", "rueidislock.", "concurrency.", "api.", "LockKey(", "SemaphorePrefix("},
		func(theirs string) bool { return strings.Contains(code, theirs) },
	)
}

// header returns the imports and variables that a fragment uses and does not declare.
func header(file *ast.File, code string) string {
	in := surroundings[surroundingOf(code)]
	paths, variables := in.paths, in.variables
	used := map[string]bool{} // and not declared
	ast.Inspect(file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Obj == nil {
			used[id.Name] = true
		}
		return true
	})
	var text strings.Builder
	imported := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		pkg, kind, ok := strings.Cut(variables[name], " ")
		if !ok {
			pkg = name
		} else {
			fmt.Fprintf(&text, "var %s %s\n", name, kind)
		}
		if path := paths[pkg]; path != "" && !imported[pkg] {
			imported[pkg] = true
		}
	}
	var imports strings.Builder
	for pkg := range imported {
		fmt.Fprintf(&imports, "import %s %q\n", pkg, paths[pkg])
	}
	return imports.String() + text.String()
}

// exports are the files with the compiler's export data of all packages that blocks may import, for each surrounding.
var exports = sync.OnceValues(func() ([]map[string]string, error) {
	var all []map[string]string
	for _, in := range surroundings {
		args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "--"}
		list := exec.Command("go", slices.AppendSeq(args, maps.Values(in.paths))...)
		list.Dir = filepath.Join(root, in.dir)
		var stderr strings.Builder
		list.Stderr = &stderr
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list in %s: %w: %s", in.dir, err, stderr.String())
		}
		files := map[string]string{}
		for line := range strings.Lines(string(out)) {
			if path, export, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
				files[path] = export
			}
		}
		all = append(all, files)
	}
	return all, nil
})

// TestReadmeFence runs README's example of a fence on PostgreSQL: a newer holder's sale counts, and the late writer's
// is refused.
func TestReadmeFence(t *testing.T) {
	postgres := servers.Postgres(t)
	var sell string
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if p.path == "README.md" && strings.Contains(b.code, "func sell(") {
				sell = b.code
			}
		}
	}
	if sell == "" {
		t.Fatal("README.md has no func sell")
	}
	program := `package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

func main() {
	ctx := context.Background()
	db, err := sql.Open("pgx", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for _, statement := range []string{
		"CREATE TABLE stock (item bigint PRIMARY KEY, quantity bigint NOT NULL)",
		"INSERT INTO stock VALUES (42, 10)",
	} {
		if _, err := db.Exec(statement); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(sell(ctx, db, 1<<8), sell(ctx, db, 3<<8))
	fmt.Println(errors.Is(sell(ctx, db, 2<<8), holdfast.ErrStale))
	var quantity int
	if err := db.QueryRow("SELECT quantity FROM stock").Scan(&quantity); err != nil {
		log.Fatal(err)
	}
	fmt.Println(quantity)
}

` + sell
	if out := runProgram(t, program, postgres.URL("postgres", "", "postgres")); out != "<nil> <nil>\ntrue\n8\n" {
		t.Errorf("it printed %q", out)
	}
}

// TestRecipeToken runs the recipe of a script that sends its token to PostgreSQL: the newer token passes, and the older
// one is refused and writes nothing.
func TestRecipeToken(t *testing.T) {
	server := servers.Postgres(t)
	db := server.DB(t)
	for _, statement := range []string{
		"CREATE TABLE report_fence (name text PRIMARY KEY, token bigint NOT NULL)",
		"INSERT INTO report_fence VALUES ('nightly', 0)",
		"CREATE TABLE report (made_at timestamptz)",
		"INSERT INTO report VALUES (NULL)",
	} {
		_, err := db.ExecContext(t.Context(), statement)
		testkit.Must(t, err)
	}
	var script string
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if p.path == "docs/recipes.md" && strings.Contains(b.code, "psql ") {
				script = b.code
			}
		}
	}
	host, port, err := net.SplitHostPort(server.Addr())
	testkit.Must(t, err)
	run := func(token string) (string, error) {
		psql := exec.CommandContext(t.Context(), "bash", "-ec", script)
		psql.Env = append(os.Environ(), "HOLDFAST_TOKEN="+token, "PGHOST="+host, "PGPORT="+port, "PGUSER=postgres",
			"PGDATABASE=postgres", "PSQLRC=/dev/null")
		out, err := psql.CombinedOutput()
		return string(out), err
	}
	if out, err := run("1797693134862315776"); err != nil {
		t.Fatalf("the newer token: %v: %s", err, out)
	}
	_, err = db.ExecContext(t.Context(), "UPDATE report SET made_at = NULL")
	testkit.Must(t, err)
	if out, err := run("1797693134862315775"); err == nil || !strings.Contains(out, "newer holder") {
		t.Errorf("the older token: %v: %s", err, out)
	}
	var written bool
	testkit.Must(t, db.QueryRowContext(t.Context(), "SELECT made_at IS NOT NULL FROM report").Scan(&written))
	if written {
		t.Error("the older token's write was done")
	}
}

// runProgram runs a program as a package of this module, and returns what it prints.
func runProgram(t *testing.T, program string, args ...string) string {
	t.Helper()
	source := filepath.Join(t.TempDir(), "main.go")
	testkit.Must(t, os.WriteFile(source, []byte(program), 0o600))
	here, err := filepath.Abs(".")
	testkit.Must(t, err)
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	testkit.Must(t, os.WriteFile(overlay,
		fmt.Appendf(nil, `{"Replace": {%q: %q}}`, filepath.Join(here, "program", "main.go"), source), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := exec.CommandContext(ctx, "go", slices.Concat([]string{"run", "-overlay", overlay, "./program"}, args)...)
	var stderr strings.Builder
	run.Stderr = &stderr
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return string(out)
}
