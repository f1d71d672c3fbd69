package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestNeed(t *testing.T) {
	for _, test := range []struct {
		name, ci, require string
		fails             bool
	}{
		{"a developer's machine", "", "", false},
		{"another meaning of CI", "false", "", false},
		{"continuous integration", "true", "", true},
		{"make test", "", "1", true},
	} {
		for program, advice := range map[string]string{
			"redis-server":  "apt-get install redis-server",
			"valkey-server": "make servers",
			"etcd":          "make servers",
			"consul":        "make servers",
			"postgres":      "apt-get install postgresql",
			"pg_dump":       "apt-get install postgresql-client",
			"pgbouncer":     "apt-get install pgbouncer",
			"mariadbd":      "apt-get install mariadb-server",
			"zookeeper":     "apt-get install zookeeper",
			"javac":         "apt-get install default-jdk-headless",
			"chromium":      "apt-get install chromium",
		} {
			t.Run(test.name+"/"+program, func(t *testing.T) {
				t.Setenv("PATH", t.TempDir())
				t.Setenv("XDG_CACHE_HOME", t.TempDir())
				t.Setenv("HOLDFAST_ETCD", "")
				t.Setenv("HOLDFAST_CONSUL", "")
				t.Setenv("HOLDFAST_STORES", "")
				hideDebian(t)
				t.Setenv("CI", test.ci)
				t.Setenv("HOLDFAST_REQUIRE_SERVERS", test.require)
				f := asTest(t, func(t testing.TB) {
					Need(t, program)
					t.Errorf("it went on")
				})
				if f.failed != test.fails || f.skipped == test.fails {
					t.Errorf("failed: %t, skipped: %t", f.failed, f.skipped)
				}
				for _, word := range []string{program + " is missing", advice} {
					if !strings.Contains(f.said, word) {
						t.Errorf("it does not say %q: %s", word, f.said)
					}
				}
			})
		}
	}
}

// TestNeedOfOtherStores: a server that none of the stores needs that are asked for is not needed, though it is
// required.
func TestNeedOfOtherStores(t *testing.T) {
	for stores, want := range map[string]map[string]bool{
		"":           {"redis-server": true, "etcd": true},
		"redis":      {"redis-server": true, "valkey-server": true, "etcd": false, "cc": true, "chromium": true},
		"etcd":       {"redis-server": false, "valkey-server": false, "etcd": true},
		"redis etcd": {"redis-server": true, "etcd": true},
		"sqlite":     {"redis-server": false, "etcd": false, "postgres": false, "mariadbd": false, "cc": true},
		"postgres":   {"postgres": true, "pgbouncer": true, "mariadbd": false, "redis-server": false},
		"mysql":      {"postgres": false, "pgbouncer": false, "mariadbd": true, "zookeeper": false, "javac": false},
		"zookeeper":  {"zookeeper": true, "javac": true, "etcd": false, "consul": false},
		"consul":     {"zookeeper": false, "etcd": false, "consul": true},
	} {
		for program, needed := range want {
			t.Run(stores+"/"+program, func(t *testing.T) {
				t.Setenv("PATH", t.TempDir())
				t.Setenv("XDG_CACHE_HOME", t.TempDir())
				t.Setenv("HOLDFAST_ETCD", "")
				t.Setenv("HOLDFAST_CONSUL", "")
				t.Setenv("HOLDFAST_REQUIRE_SERVERS", "1")
				t.Setenv("HOLDFAST_STORES", stores)
				hideDebian(t)
				f := asTest(t, func(t testing.TB) { Need(t, program) })
				if f.failed != needed || f.skipped == needed {
					t.Errorf("failed: %t, skipped: %t: %s", f.failed, f.skipped, f.said)
				}
			})
		}
	}
}

// hideDebian hides the servers that Debian keeps off the PATH, and returns the folder where they are looked for.
func hideDebian(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("HOLDFAST_ZOOKEEPER_JAR", "")
	postgres, daemons, jars := debianPostgres, debianDaemons, debianJars
	t.Cleanup(func() { debianPostgres, debianDaemons, debianJars = postgres, daemons, jars })
	debianPostgres, debianDaemons = filepath.Join(dir, "*", "bin", "postgres"), filepath.Join(dir, "sbin")
	debianJars = filepath.Join(dir, "java")
	return dir
}

// The newest PostgreSQL of Debian is found, unless there is one on the PATH.
func TestFindPostgres(t *testing.T) {
	path, debian := t.TempDir(), hideDebian(t)
	t.Setenv("PATH", path)
	for _, folders := range [][]string{
		{debian, "9", "bin", "postgres"}, {debian, "15", "bin", "postgres"}, {path, "postgres"},
	} {
		want := fakeProgram(t, folders...)
		if got, err := find("postgres"); got != want {
			t.Errorf("found %q, want %q: %v", got, want, err)
		}
	}
}

// A user who is not root has not all servers on the PATH.
func TestFindDaemon(t *testing.T) {
	path, debian := t.TempDir(), hideDebian(t)
	t.Setenv("PATH", path)
	for _, folders := range [][]string{{debian, "sbin", "mariadbd"}, {path, "mariadbd"}} {
		want := fakeProgram(t, folders...)
		if got, err := find("mariadbd"); got != want {
			t.Errorf("found %q, want %q: %v", got, want, err)
		}
	}
}

// ZooKeeper is found where its jar and Java are. Another jar comes with those beside it.
func TestFindZooKeeper(t *testing.T) {
	path, debian, other := t.TempDir(), hideDebian(t), t.TempDir()
	t.Setenv("PATH", path)
	java := fakeProgram(t, path, "java")
	if got, err := find("zookeeper"); err == nil {
		t.Errorf("found %q, where there is no jar", got)
	}
	jar := fakeProgram(t, debian, "java", "zookeeper.jar")
	for _, test := range []struct{ override, first, second string }{
		{"", jar, filepath.Join(debian, "java", "slf4j-simple.jar")},
		{fakeProgram(t, other, "zookeeper-9.jar"), filepath.Join(other, "zookeeper-9.jar"), filepath.Join(other, "*")},
	} {
		t.Setenv("HOLDFAST_ZOOKEEPER_JAR", test.override)
		if got, err := find("zookeeper"); got != java {
			t.Errorf("found %q, want %q: %v", got, java, err)
		}
		if got := filepath.SplitList(zooKeeperClasses()); got[0] != test.first || got[1] != test.second {
			t.Errorf("the class path is %q, want %q and %q first", got, test.first, test.second)
		}
	}
	check(t, os.Remove(java))
	if got, err := find("zookeeper"); err == nil {
		t.Errorf("found %q, where there is no Java", got)
	}
}

// fakeProgram makes a program that does nothing.
func fakeProgram(t *testing.T, folders ...string) (path string) {
	t.Helper()
	path = filepath.Join(folders...)
	check(t, os.MkdirAll(filepath.Dir(path), 0o700))
	check(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
	return path
}

// What `make servers` builds is found in the cache, unless an environment variable names another.
func TestFindBuilt(t *testing.T) {
	for program, built := range map[string]struct{ name, variable string }{
		"etcd":   {"etcd-" + etcdVersion, "HOLDFAST_ETCD"},
		"consul": {"consul-" + consulVersion, "HOLDFAST_CONSUL"},
	} {
		home := t.TempDir()
		cached := fakeProgram(t, home, ".cache", "holdfast", "servers", built.name)
		moved := fakeProgram(t, home, "elsewhere", "holdfast", "servers", built.name)
		own := fakeProgram(t, home, "own")
		for _, test := range []struct{ name, cache, override, want string }{
			{"cache", "", "", cached},
			{"another cache", filepath.Join(home, "elsewhere"), "", moved},
			{"override", "", own, own},
			{"override that is not there", "", filepath.Join(home, "nothing"), ""},
		} {
			t.Run(program+"/"+test.name, func(t *testing.T) {
				t.Setenv("HOME", home)
				t.Setenv("XDG_CACHE_HOME", test.cache)
				t.Setenv(built.variable, test.override)
				got, err := find(program)
				if got != test.want || (err == nil) != (test.want != "") {
					t.Errorf("found %q, want %q: %v", got, test.want, err)
				}
			})
		}
	}
}

// Valkey is found in the cache, and otherwise on the PATH.
func TestFindValkey(t *testing.T) {
	cache, path := t.TempDir(), t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("PATH", path)
	if got, err := find("valkey-server"); err == nil {
		t.Errorf("found %q, where there is none", got)
	}
	for _, folders := range [][]string{
		{path, "valkey-server"}, {cache, "holdfast", "servers", "valkey-server-" + valkeyVersion},
	} {
		want := fakeProgram(t, folders...)
		if got, err := find("valkey-server"); got != want {
			t.Errorf("found %q, want %q: %v", got, want, err)
		}
	}
}

// The version is said in tools/install-valkey, which puts it into the cache, and here. The two must be the same.
func TestValkeyVersion(t *testing.T) {
	script, err := os.ReadFile("../../tools/install-valkey")
	check(t, err)
	if want := "\nversion=" + valkeyVersion + " "; !strings.Contains(string(script), want) {
		t.Errorf("tools/install-valkey does not say%s", want)
	}
	said, err := exec.Command(Need(t, "valkey-server"), "--version").Output()
	_, number, _ := strings.Cut(string(said), " v=")
	major, _, _ := strings.Cut(number, ".")
	if major < valkeyVersion && len(major) == 1 {
		t.Errorf("it says %q, want %s or later: %v", said, valkeyVersion, err)
	}
}

// The versions are said in modules of tools, for the makefile that builds them, and here. They must be the same.
func TestBuiltVersions(t *testing.T) {
	for _, test := range []struct{ program, version, module, variable, flag, says string }{
		{"etcd", etcdVersion, "go.etcd.io/etcd/server/v3", "HOLDFAST_ETCD", "--version", "etcd Version: %s\n"},
		{"consul", consulVersion, "github.com/hashicorp/consul", "HOLDFAST_CONSUL", "version", "Consul v%s\n"},
	} {
		t.Run(test.program, func(t *testing.T) {
			mod, err := os.ReadFile(filepath.Join("..", "..", "tools", test.program, "go.mod"))
			check(t, err)
			if want := "\t" + test.module + " " + test.version + " "; !strings.Contains(string(mod), want) {
				t.Errorf("its module does not require%s", want)
			}
			t.Setenv(test.variable, "") // it may be any version
			said, err := exec.Command(Need(t, test.program), test.flag).Output()
			if want := fmt.Sprintf(test.says, test.version[1:]); !strings.HasPrefix(string(said), want) {
				t.Errorf("what is in the cache says %q, want %q: %v", said, want, err)
			}
		})
	}
}
