package servers

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// etcdVersion is the version that tests use. tools/etcd/go.mod, from which it is built, must have the same.
const etcdVersion = "v3.7.3"

// consulVersion is the version that tests use. tools/consul/go.mod, from which it is built, must have the same.
const consulVersion = "v1.22.5"

// valkeyVersion is the major version of Valkey that tests use. tools/install-valkey must have the same.
const valkeyVersion = "8"

// programs are those that tests need: how to install each on Debian, and the stores that need it if it is a server or
// comes with one.
var programs = map[string]struct{ howToGet, stores string }{
	"redis-server":  {"apt-get install redis-server (7.0 or newer; it is its own sentinel)", "redis redlock"},
	"valkey-server": {"make servers, or put Valkey 8 or newer on the PATH", "redis redlock"},
	"etcd":          {"make servers", "etcd"},
	"consul":        {"make servers", "consul"},
	"postgres":      {"apt-get install postgresql (15 or newer)", "postgres"},
	"pg_dump":       {"apt-get install postgresql-client", "postgres"},
	"pgbouncer":     {"apt-get install pgbouncer", "postgres"},
	"mariadbd":      {"apt-get install mariadb-server (10.11 or newer)", "mysql"},
	"zookeeper":     {"apt-get install zookeeper (3.8 or newer)", "zookeeper"},
	"javac":         {"apt-get install default-jdk-headless", "zookeeper"},
	"cc":            {"apt-get install gcc libc6-dev", ""},
	"chromium":      {"apt-get install chromium", ""},
}

// Need finds a program. If it is missing, the test is skipped, or fails where tests must not be left out: with CI=true
// or HOLDFAST_REQUIRE_SERVERS set. If HOLDFAST_STORES names stores, tests with the servers of others are skipped.
func Need(t testing.TB, program string) (path string) {
	t.Helper()
	if stores := strings.Fields(os.Getenv("HOLDFAST_STORES")); !asked(stores, program) {
		t.Skipf("left out, because only the stores %s are asked for, and none of them needs %s", stores, program)
	}
	path, err := find(program)
	if err == nil {
		return path
	}
	LeaveOut(t, program+" is missing. To get it: "+adviceFor(program))
	return ""
}

// Missing reports whether a program is missing on this machine, and how to install it.
func Missing(program string) (advice string, missing bool) {
	if _, err := find(program); err == nil {
		return "", false
	}
	return adviceFor(program), true
}

// adviceFor returns how to install a program.
func adviceFor(program string) string {
	return cmp.Or(programs[program].howToGet, "put it on the PATH")
}

// LeaveOut skips the test, or fails it where tests must not be left out: see [Need].
func LeaveOut(t testing.TB, because string) {
	t.Helper()
	if required() {
		t.Fatalf("no test may be left out here, and %s", because)
	}
	t.Skipf("left out, because %s", because)
}

// asked reports whether one of these stores needs a program. An empty list means all stores.
func asked(stores []string, program string) bool {
	users := strings.Fields(programs[program].stores)
	if len(stores) == 0 || len(users) == 0 {
		return true
	}
	return slices.ContainsFunc(users, func(user string) bool { return slices.Contains(stores, user) })
}

// find finds a program on the PATH. Etcd, Consul and Valkey are in the cache where `make servers` installs them, since
// the versions of systems are old or missing. HOLDFAST_ETCD and HOLDFAST_CONSUL name others. Valkey may also be on the
// PATH. Debian keeps PostgreSQL off the PATH, and other servers off that of a user who is not root. ZooKeeper is a jar,
// and the program is the java that runs it.
func find(program string) (path string, err error) {
	switch program {
	case "etcd":
		return findBuilt("HOLDFAST_ETCD", "etcd-"+etcdVersion)
	case "consul":
		return findBuilt("HOLDFAST_CONSUL", "consul-"+consulVersion)
	case "valkey-server":
		if path, err = findCached("valkey-server-" + valkeyVersion); err == nil {
			return path, nil
		}
	case "postgres":
		return findPostgres()
	case "zookeeper":
		if _, err = os.Stat(zooKeeperJar()); err != nil {
			return "", err
		}
		return exec.LookPath("java")
	case "mariadbd", "pgbouncer":
		if path, err = exec.LookPath(program); err != nil {
			return exec.LookPath(filepath.Join(debianDaemons, program))
		}
		return path, nil
	}
	return exec.LookPath(program)
}

// Where Debian has servers that may not be on the PATH. It may have many versions of PostgreSQL.
var (
	debianPostgres = "/usr/lib/postgresql/*/bin/postgres"
	debianDaemons  = "/usr/sbin"
	debianJars     = "/usr/share/java"
)

// zooKeeperJar returns the path of ZooKeeper: the jar that HOLDFAST_ZOOKEEPER_JAR names, or Debian's.
func zooKeeperJar() string {
	return cmp.Or(os.Getenv("HOLDFAST_ZOOKEEPER_JAR"), filepath.Join(debianJars, "zookeeper.jar"))
}

// zooKeeperClasses is the class path of ZooKeeper. Debian's jar names the others that it needs, but for a logger and a
// part of what TLS needs. The jars of another ZooKeeper are all in one folder.
func zooKeeperClasses() string {
	jar := zooKeeperJar()
	dir, others := filepath.Dir(jar), []string{"*"}
	if dir == debianJars {
		others = []string{"slf4j-simple.jar", "netty-codec.jar", "netty-resolver.jar"}
	}
	classes := jar
	for _, other := range others {
		classes += string(filepath.ListSeparator) + filepath.Join(dir, other)
	}
	return classes
}

// findPostgres finds PostgreSQL on the PATH, or the newest that Debian has beside it.
func findPostgres() (path string, err error) {
	path, err = exec.LookPath("postgres")
	if err == nil {
		return filepath.EvalSymlinks(path) // its tools are beside the program
	}
	paths, _ := filepath.Glob(debianPostgres)
	if len(paths) == 0 {
		return "", err
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return exec.LookPath(slices.MaxFunc(paths, func(a, b string) int { return version(a) - version(b) }))
}

// findBuilt finds a program that `make servers` builds, or another that an environment variable names.
func findBuilt(override, name string) (path string, err error) {
	if path = os.Getenv(override); path != "" {
		return exec.LookPath(path)
	}
	return findCached(name)
}

// findCached finds a program in the cache.
func findCached(name string) (path string, err error) {
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	return exec.LookPath(filepath.Join(dir, name))
}

// cacheDir returns the folder where `make servers` puts what it builds.
func cacheDir() (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "holdfast", "servers"), nil
}

// required reports whether a missing server program fails a test rather than skipping it.
func required() bool {
	return os.Getenv("CI") == "true" || os.Getenv("HOLDFAST_REQUIRE_SERVERS") != ""
}
