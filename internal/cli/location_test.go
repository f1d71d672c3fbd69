package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/misplaced"
	"github.com/holdfast-go/holdfast/store"
)

func TestDefaultLocation(t *testing.T) {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("another folder, by another variable")
	}
	home, state := t.TempDir(), filepath.Join(t.TempDir(), "50% #odd?")
	t.Setenv("HOME", home)
	unsetStoreEnv(t)
	for _, c := range []struct{ name, state, want string }{
		{"by XDG", state, filepath.Join(state, "holdfast")},
		{"by home", "", filepath.Join(home, ".local", "state", "holdfast")},
		{"a relative folder is none", "elsewhere", filepath.Join(home, ".local", "state", "holdfast")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", c.state)
			at, err := new(app).locate()
			check(t, err)
			if at.Scheme != "sqlite" || at.Path != filepath.Join(c.want, "locks.db") {
				t.Errorf("%s: %s", at.Scheme, at.Path)
			}
			again, err := store.ParseLocation(at.String())
			if err != nil || again.Path != at.Path {
				t.Errorf("%s reads as %s, %v", at, again.Path, err)
			}
			check(t, makeStateFolder(at))
			info, err := os.Stat(c.want)
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("the folder: %v, %v", info, err)
			}
		})
	}
	t.Run("no home", func(t *testing.T) {
		t.Setenv("XDG_STATE_HOME", "")
		t.Setenv("HOME", "")
		if _, err := new(app).locate(); exitCode(err) != exitUsage {
			t.Errorf("%v", err)
		}
	})
	t.Run("no folder", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		check(t, os.WriteFile(file, nil, 0o600))
		t.Setenv("XDG_STATE_HOME", file)
		at, err := new(app).locate()
		check(t, err)
		if err := makeStateFolder(at); exitCode(err) != exitStore {
			t.Errorf("%v", err)
		}
	})
}

// unsetStoreEnv takes the variable away for a test.
func unsetStoreEnv(t *testing.T) {
	t.Helper()
	t.Setenv(storeEnv, "") // which sets it back afterwards
	check(t, os.Unsetenv(storeEnv))
}

// TestEmptyStore gives an empty URL, as --store "$UNSET" does. Nobody meant the local file by that.
func TestEmptyStore(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, args := range []string{"run x -- true", "ls", "show x", "break --yes x", "demo", "redlock status"} {
		unsetStoreEnv(t)
		callOnFiles(t, append([]string{"--store="}, strings.Fields(args)...)...).complains(t, exitUsage, "empty")
	}
	t.Setenv(storeEnv, "")
	if _, err := new(app).locate(); exitCode(err) != exitUsage || !strings.Contains(err.Error(), storeEnv+" is empty") {
		t.Errorf("an empty %s: %v", storeEnv, err)
	}
}

// TestLookingMakesNothing looks at a file that is not there: there are no locks, and afterwards there still is no file.
func TestLookingMakesNothing(t *testing.T) {
	unsetStoreEnv(t)
	folder := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(folder, "state"))
	t.Setenv("HOME", folder)
	for _, store := range []string{"", "sqlite:" + filepath.Join(folder, "locks.db")} {
		for _, c := range []struct {
			args string
			code int
			out  string
		}{
			{"ls", 0, nothing},
			{"ls --json", 0, `"store": "sqlite at ` + folder + `[^}]*"locks": \[\]`},
			{"show x", exitNotHeld, nothing},
			{"show --json x", exitNotHeld, `"holders": \[\]`},
			{"break --yes x", exitNotHeld, nothing},
			{"__complete show ", 0, ":4"},
		} {
			args := strings.Split(c.args, " ")
			if store != "" {
				args = slices.Insert(args, 1, "--store", store)
			}
			errors := ""
			if c.code == exitNotHeld {
				errors = "^holdfast: x is not held\n$"
			}
			bare(t, args...).want(t, c.code, c.out, errors)
		}
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	bare(t, "ls", "--store",
		"sqlite:"+filepath.Join(folder, "no", "folder", "locks.db")).want(t, exitStore, nothing, "folder")
}

func TestLocate(t *testing.T) {
	t.Setenv(storeEnv, "memory:environment")
	for _, c := range []struct{ flag, want string }{
		{"", "memory:environment"},
		{"memory:flag", "memory:flag"},
	} {
		at, err := (&app{storeURL: c.flag}).locate()
		if err != nil || at.String() != c.want {
			t.Errorf("with --store=%s: %s, %v", c.flag, at, err)
		}
	}
}

func TestMaskedStoreIsRefused(t *testing.T) {
	for _, raw := range []string{
		"redis://:hush@h", "redis://joe:hush@h:1/2?prefix=a", "redis://h?password=hush", "redis://hush@h",
		"redis://hush:@h", "redis://h?hush=1", "redis+sentinel://h/main?sentinel-user=hush",
	} {
		at, err := store.ParseLocation(raw)
		check(t, err)
		masked := absolute(at).String()
		if strings.Contains(masked, "hush") {
			t.Fatalf("%s is handed on", masked)
		}
		t.Setenv(storeEnv, masked)
		if _, err := new(app).locate(); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "masked") {
			t.Errorf("%s: %v", masked, err)
		}
		if _, err := (&app{storeURL: raw}).locate(); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	t.Setenv(storeEnv, "redis://h/1?prefix=a&startup-delay=1s")
	if _, err := new(app).locate(); err != nil {
		t.Errorf("nothing was masked there: %v", err)
	}
}

func TestNoPasswordIsShown(t *testing.T) {
	for _, raw := range []string{
		"redis://:hush@127.0.0.1:1:1", "redis://:hu%sh@h", "no scheme hush", "nosuch://joe:hush@h", "memory://:hush@h",
		"redis://:hush@h?ttl=never", "redis://h?password=hush#x",
	} {
		r := call(t, "ls", "--store", raw)
		r.complains(t, exitUsage, "")
		if strings.Contains(r.errors, "hush") {
			t.Errorf("%s: %s", raw, r.errors)
		}
	}
}

// TestMisplacedSecrets: somebody gives the program a URL with a secret in its place or in any other, in each of the
// ways to give one, or where none is expected. Nothing that the program prints shows a piece of the secret.
func TestMisplacedSecrets(t *testing.T) {
	t.Setenv(storeEnv, "")
	const sample = 7 // of so many URLs one is enough here: package stores opens all
	for way, c := range map[string]struct {
		scheme    string
		args      []string // URL stands for it
		misplaced bool     // no URL is expected there, and what does not look like one is repeated
	}{
		"--store":        {"redis+sentinel", []string{"ls", "--json", "--store", "URL"}, false},
		"-store=":        {"redis", []string{"ls", "-store=URL"}, false},
		"demo --store":   {"etcd", []string{"demo", "--store", "URL"}, false},
		"show --store":   {"consul", []string{"show", "x", "--store", "URL"}, false},
		"redlock status": {"redlock", []string{"redlock", "status", "--json", "URL"}, false},
		"redlock trust":  {"redlock", []string{"redlock", "trust", "URL", "h1"}, false},
		"redlock":        {"redlock", []string{"redlock", "URL"}, true},
		"as a command":   {"redis", []string{"URL"}, true},
		"in a flag":      {"redis", []string{"run", "--wait", "URL", "x", "--", "true"}, true},
	} {
		t.Run(way, func(t *testing.T) {
			n := 0
			for url := range misplaced.URLs(c.scheme) {
				if n++; n%sample != 0 {
					continue
				}
				args := slices.Clone(c.args)
				for i := range args {
					args[i] = strings.Replace(args[i], "URL", url.Text, 1)
				}
				if r := bare(t, args...); url.In(r.errors+r.out) && (!c.misplaced || mayBeURL(url.Text)) {
					t.Errorf("%q: %+v", url.Text, r)
				}
			}
		})
	}
	t.Run(storeEnv, func(t *testing.T) {
		n := 0
		for url := range misplaced.URLs("redis") {
			if n++; n%sample != 0 {
				continue
			}
			t.Setenv(storeEnv, url.Text)
			if r := bare(t, "ls"); r.code == 0 || url.In(r.errors+r.out) {
				t.Errorf("%q: %+v", url.Text, r)
			}
		}
	})
}

func TestAbsolute(t *testing.T) {
	here, err := os.Getwd()
	check(t, err)
	for raw, want := range map[string]string{
		"sqlite:locks.db":      "sqlite:" + filepath.Join(here, "locks.db"),
		"sqlite:/var/locks.db": "sqlite:/var/locks.db",
		"redis://h/1":          "redis://h/1",
		"memory:here":          "memory:here",
	} {
		at, err := store.ParseLocation(raw)
		check(t, err)
		if got := absolute(at).String(); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
